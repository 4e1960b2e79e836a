//! Load test driver.
fn main() {}
