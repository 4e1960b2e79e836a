//! REST wire types, shared by server and sdk.
