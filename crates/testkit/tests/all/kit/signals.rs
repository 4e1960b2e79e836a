//! A receiver that does not listen for long gets an error.

use punctual_contract::{Signals as _, ownership::Signal};
use punctual_domain::{place::Partition, time::Millis};
use punctual_testkit::shared::{SIGNALS_KEPT, SignalHub};

#[tokio::test]
async fn who_listened_too_late_is_told_that_something_was_missed() {
    let hub = SignalHub::default();
    let (one, other) = (hub.join(), hub.join());
    let signal = |due_at| vec![Signal::Due { partition: Partition(0), due_at: Millis(due_at) }];
    for due_at in 0..=i64::try_from(SIGNALS_KEPT).unwrap() {
        one.announce(signal(due_at)).await.unwrap();
    }
    other.next().await.unwrap_err();
    assert!(!other.next().await.unwrap().is_empty(), "the next call listens again");
    hub.set_mute(true);
    one.announce(signal(1)).await.unwrap();
    hub.set_mute(false);
    one.announce(signal(2)).await.unwrap();
    assert_eq!(other.next().await.unwrap(), signal(2));
}
