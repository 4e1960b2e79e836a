//! Client and worker for users of Punctual.
