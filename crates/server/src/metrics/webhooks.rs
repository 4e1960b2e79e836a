//! Numbers of webhooks: of all queues together, because users name them.

use super::{
    WEBHOOK_DELIVERIES, WEBHOOK_HOSTS_HELD_BACK, WEBHOOK_IN_FLIGHT, WEBHOOK_TIME,
    exposition::{Buckets, Exposition},
};
use punctual_webhook::{DELIVERY_BOUNDS_MS, DeliveryResult, Dispatcher};

pub(super) fn render(out: &mut Exposition, dispatcher: Option<&Dispatcher>) {
    let numbers = dispatcher.map(Dispatcher::numbers);
    out.begin(&WEBHOOK_DELIVERIES);
    for (result, numbers) in
        DeliveryResult::ALL.iter().flat_map(|result| numbers.iter().map(move |all| (result, all)))
    {
        out.sample(&WEBHOOK_DELIVERIES, &[result.word()], numbers.of(*result));
    }
    out.begin(&WEBHOOK_TIME);
    if let Some(numbers) = &numbers {
        let bounds_us = DELIVERY_BOUNDS_MS.iter().map(|bound| bound.unsigned_abs() * 1_000);
        out.histogram(&WEBHOOK_TIME, &[], Buckets::new(bounds_us, &numbers.times, numbers.time_sum_us));
    }
    out.begin(&WEBHOOK_IN_FLIGHT);
    if let Some(numbers) = &numbers {
        out.sample(&WEBHOOK_IN_FLIGHT, &[], numbers.in_flight);
    }
    out.begin(&WEBHOOK_HOSTS_HELD_BACK);
    if let Some(numbers) = &numbers {
        out.sample(&WEBHOOK_HOSTS_HELD_BACK, &[], numbers.hosts_held_back);
    }
}
