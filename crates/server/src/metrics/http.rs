//! Counts of requests, by method, route and status. Routes are the router's patterns, never the paths of callers.

use super::{
    HTTP_LATENCY, HTTP_REFUSALS, HTTP_REQUESTS,
    exposition::{Buckets, Exposition},
};
use parking_lot::{Mutex, RwLock};
use punctual_protocol::Code;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the latency histogram, in microseconds.
const BOUNDS_US: [u64; 15] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000, 60_000_000,
];

#[derive(Debug, Default)]
pub(crate) struct HttpMeters {
    routes: RwLock<BTreeMap<(&'static str, String), Arc<RouteMeters>>>,
    /// The refusals by the code's name: there are no others than those of the protocol.
    refusals: Mutex<BTreeMap<&'static str, (Code, u64)>>,
}

#[derive(Debug, Default)]
struct RouteMeters {
    statuses: Mutex<BTreeMap<u16, u64>>,
    latency: [AtomicU64; BOUNDS_US.len() + 1],
    latency_sum_us: AtomicU64,
}

impl HttpMeters {
    pub(crate) fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let meters = self.route(method, route);
        *meters.statuses.lock().entry(status).or_default() += 1;
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let nth = BOUNDS_US.partition_point(|bound| *bound < took_us);
        if let Some(counter) = meters.latency.get(nth) {
            counter.fetch_add(1, Relaxed);
        }
        meters.latency_sum_us.fetch_add(took_us, Relaxed);
    }

    /// Counts refusals for authentication, authorization, limits and unavailability only.
    pub(crate) fn refused(&self, code: Code) {
        if matches!(code.status(), 401 | 403 | 429 | 503) {
            self.refusals.lock().entry(code.name()).or_insert((code, 0)).1 += 1;
        }
    }

    fn route(&self, method: &'static str, route: &str) -> Arc<RouteMeters> {
        let key = (method, route.to_owned());
        if let Some(route) = self.routes.read().get(&key) {
            return Arc::clone(route);
        }
        Arc::clone(self.routes.write().entry(key).or_default())
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        let routes = self.routes.read();
        out.begin(&HTTP_REQUESTS);
        for ((method, route), meters) in routes.iter() {
            for (status, count) in meters.statuses.lock().iter() {
                out.sample(&HTTP_REQUESTS, &[method, route, &status.to_string()], *count);
            }
        }
        out.begin(&HTTP_REFUSALS);
        for (name, (code, count)) in self.refusals.lock().iter() {
            out.sample(&HTTP_REFUSALS, &[name, &code.status().to_string()], *count);
        }
        out.begin(&HTTP_LATENCY);
        for ((method, route), meters) in routes.iter() {
            let counts = meters.latency.each_ref().map(|counter| counter.load(Relaxed));
            let buckets = Buckets::new(BOUNDS_US.into_iter(), &counts, meters.latency_sum_us.load(Relaxed));
            out.histogram(&HTTP_LATENCY, &[method, route], buckets);
        }
    }
}
