//! Only here so that Cargo counts the build dependencies of the manifest.

fn main() {}
