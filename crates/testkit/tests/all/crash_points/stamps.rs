//! Stamps a test for each step of a list at which an engine dies, on one ground or on each.

macro_rules! dies_on {
    ($ground:expr; $($case:ident: $at:expr;)*) => {
        $(#[test]
        fn $case() {
            let ground = Runtime::new().unwrap().block_on($ground);
            dies(&ground, $at);
        })*
    };
}

macro_rules! on_each_ground {
    ($($cases:tt)*) => {
        mod embedded {
            use super::*;
            dies_on! { Embedded::ground(); $($cases)* }
        }
        mod on_servers {
            use super::*;
            dies_on! { OnServers::ground(); $($cases)* }
        }
    };
}
