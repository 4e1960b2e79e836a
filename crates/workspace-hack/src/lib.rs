//! Has no code: its manifest makes the programs of the workspace ask for the same features of the dependencies that they share.
