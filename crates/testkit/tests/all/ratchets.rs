//! Rules of the workspace that a compiler does not hold: arrows between crates, the shape of files, what must never
//! be committed. Each rule is a function from text to findings; it is applied to the whole tree, and shown to find
//! what it is for on a small bad sample, so that none can pass by seeing nothing.

mod arrows;
mod book;
mod features;
mod files;
mod guide;
mod image;
mod imports;
mod licences;
mod rows;
mod states;
mod structure;
mod tasks;
mod time;
mod tree;
mod vocabulary;
mod words;
