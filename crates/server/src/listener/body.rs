//! The body of an answer during its transmission: its request lasts until all of it is sent. If it is ready and the
//! peer does not read it, the peer causes the delay.

use super::activity::ConnectionActivity;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A request, from its head to the end of its answer.
#[derive(Debug)]
pub(super) struct Request(pub(super) Arc<ConnectionActivity>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

#[derive(Debug)]
pub(super) struct Sent {
    body: Body,
    request: Request,
    /// There is more of it than was taken.
    waits_for_peer: bool,
}

impl Sent {
    pub(super) fn new(body: Body, request: Request) -> Self {
        let waits_for_peer = !body.is_end_stream();
        if waits_for_peer {
            request.0.body_begins();
        }
        Self { body, request, waits_for_peer }
    }

    fn set_waits_for_peer(&mut self, waits: bool) {
        match (self.waits_for_peer, waits) {
            (false, true) => self.request.0.body_begins(),
            (true, false) => self.request.0.body_ends(),
            _ => {}
        }
        self.waits_for_peer = waits;
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // A stream that has nothing to say just now waits for us.
        let waits_for_peer = matches!(frame, Poll::Ready(Some(Ok(_)))) && !self.body.is_end_stream();
        self.set_waits_for_peer(waits_for_peer);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.set_waits_for_peer(false);
    }
}
