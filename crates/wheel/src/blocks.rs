//! A vector in blocks of fixed size: it grows without moving its elements.
//!
//! A plain vector of 10 million slots copies all of them when it doubles, with most allocators: one insert
//! that takes as long as a million others. Blocks are kept for reuse and never freed: a key may name any of
//! their slots.

/// Items a block. Large enough that the list of blocks stays in the cache, small enough to cost little when empty.
const BLOCK_LEN: u32 = 1 << 14;

pub(crate) struct Blocks<T> {
    blocks: Vec<Vec<T>>,
    len: u32,
}

const fn place_of(index: u32) -> (usize, usize) {
    ((index / BLOCK_LEN) as usize, (index % BLOCK_LEN) as usize)
}

impl<T> Blocks<T> {
    pub(crate) const fn new() -> Self {
        Self { blocks: Vec::new(), len: 0 }
    }

    /// Appends and returns the index. Panics beyond 2^32 - 1 items.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let index = self.len;
        self.len = index.checked_add(1).expect("fewer than 2^32 timers at a time");
        let (block, _) = place_of(index);
        if let Some(block) = self.blocks.get_mut(block) {
            block.push(item);
        } else {
            self.open_block(item);
        }
        index
    }

    /// The first block grows by doubling, so that a small wheel stays small; the others come at full size.
    #[cold]
    fn open_block(&mut self, item: T) {
        let (_, last) = place_of(BLOCK_LEN - 1);
        let mut block = if self.blocks.is_empty() { Vec::new() } else { Vec::with_capacity(last + 1) };
        block.push(item);
        self.blocks.push(block);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let (block, _) = place_of(self.len);
        self.blocks.get_mut(block)?.pop()
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (block, offset) = place_of(index);
        self.blocks.get(block)?.get(offset)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (block, offset) = place_of(index);
        self.blocks.get_mut(block)?.get_mut(offset)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_index_across_blocks_and_come_back_last_first() {
        let mut blocks = Blocks::new();
        let count = BLOCK_LEN * 2 + 5;
        for item in 0..count {
            assert_eq!(blocks.push(item), item);
        }
        assert!((0..count).all(|index| blocks.get(index) == Some(&index)));
        assert_eq!(blocks.get(count), None);
        assert!((0..count).rev().all(|item| blocks.pop() == Some(item)));
        assert_eq!((blocks.pop(), blocks.len()), (None, 0));
        assert_eq!(blocks.push(7), 0);
    }
}
