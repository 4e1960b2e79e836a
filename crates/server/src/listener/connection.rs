//! One connection from its first byte to its last: TLS, requests, and its end, by itself or by order. Must never know a route.

use super::{
    activity::{ConnectionActivity, Order},
    body::{Request, Sent},
    connections::Pass,
    context::ListenerContext,
    handshakes::TlsFailure,
    refuse,
    stream::{ClientStream, Socket, Watched},
};
use crate::{access::ClientAddress, observe::Malformed};
use axum::{body::Body, http};
use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use punctual_protocol::Code;
use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

pub(super) async fn serve(context: Arc<ListenerContext>, stream: TcpStream, peer: IpAddr, pass: Pass) {
    // Nagle's algorithm would hold small answers back by up to 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let line = ClientStream { stream, activity: Arc::clone(&pass.activity) };
    let socket = match &context.certificates {
        None => Socket::Plain(line),
        Some(certificates) => {
            let config = certificates.config();
            let shaken = Box::pin(shake_hands(&context, TlsAcceptor::from(config), line));
            let socket = tokio::select! {
                shaken = shaken => shaken,
                _ = pass.activity.reported() => None,
            };
            let Some(socket) = socket else { return };
            socket
        }
    };
    talk(Arc::clone(&context), socket, peer, Arc::clone(&pass.activity)).await;
}

/// Returns `None` if the handshake failed.
async fn shake_hands(context: &ListenerContext, acceptor: TlsAcceptor, line: ClientStream) -> Option<Socket> {
    let shaking = async {
        let mut first = [0_u8; 1];
        // A handshake begins with 0x16, a request with a letter.
        if line.stream.peek(&mut first).await.is_ok_and(|stream| stream == 1) && first[0].is_ascii_uppercase()
        {
            return Err(line);
        }
        Ok(acceptor.accept(line).into_fallible().await)
    };
    // Counted before the peer can know of it.
    match tokio::time::timeout(context.options.handshake_timeout, shaking).await {
        Ok(Ok(Ok(stream))) => return Some(Socket::Tls(Box::new(stream))),
        Ok(Ok(Err((error, line)))) => {
            tracing::debug!(%error, "a TLS handshake failed");
            context.app.tls.fail(TlsFailure::Handshake);
            refuse::end(line.stream).await;
        }
        Ok(Err(line)) => {
            context.app.tls.fail(TlsFailure::Plain);
            refuse::answer(line.stream, Code::RequestInvalid, "this port speaks TLS: use https://").await;
        }
        Err(_) => context.app.tls.fail(TlsFailure::Timeout),
    }
    None
}

/// The violation of HTTP/1.1 in a request's head, if the library accepts it; HTTP/2 has none of these.
fn fault(request: &http::Request<Incoming>) -> Option<&'static str> {
    if request.version() > http::Version::HTTP_11 {
        return None;
    }
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let (has_host, has_more) = (hosts.next().is_some(), hosts.next().is_some());
    if !has_host && request.version() == http::Version::HTTP_11 {
        Some("its head has no Host, which HTTP/1.1 asks for")
    } else {
        has_more.then_some("its head has several Host headers")
    }
}

async fn talk(
    context: Arc<ListenerContext>,
    socket: Socket,
    peer: IpAddr,
    activity: Arc<ConnectionActivity>,
) {
    let io = TokioIo::new(Watched::new(socket, Arc::clone(&activity)));
    let router = TowerToHyperService::new(context.router.clone());
    let (its, shared) = (Arc::clone(&activity), Arc::clone(&context));
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        its.request_begins(request.version());
        let begun = Request(Arc::clone(&its));
        let client = shared.options.trusted_proxies.client(peer, request.headers());
        request.extensions_mut().insert::<ClientAddress>(client);
        if let Some(fault) = fault(&request) {
            request.extensions_mut().insert(Malformed(fault));
        }
        let answering = router.call(request);
        async move {
            let answer = answering.await?;
            Ok::<_, Infallible>(answer.map(|body: Body| Sent::new(body, begun)))
        }
    });
    let mut connection = pin!(context.http.serve_connection(io, service));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke off");
                }
                return;
            }
            order = activity.reported() => match order {
                Order::Finish => connection.as_mut().graceful_shutdown(),
                Order::Cut => return,
            }
        }
    }
}
