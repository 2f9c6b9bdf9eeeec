//! Where in a fully associative array an entry is.

/// A hash table from the entries' tags to their places, with linear probing.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Tag and place; tag 0 is none.
    buckets: Box<[(u64, u32)]>,
    /// Number of the lowest bit of a hashed tag that selects a bucket.
    shift: u32,
}

impl Index {
    /// For so many entries. Three buckets of four stay empty, so that searches are short.
    pub(super) fn new(entries: usize) -> Self {
        let buckets = (entries * 4).next_power_of_two();
        Self { buckets: vec![(0, 0); buckets].into(), shift: 64 - buckets.trailing_zeros() }
    }

    /// The place of a tag.
    #[inline(always)]
    pub(super) fn find(&self, tag: u64) -> Option<usize> {
        let mut bucket = self.home(tag);
        loop {
            let (found, slot) = self.buckets[bucket];
            if found == tag {
                return Some(slot as usize);
            }
            if found == 0 {
                return None;
            }
            bucket = self.next(bucket);
        }
    }

    /// Adds a tag that is not there.
    pub(super) fn insert(&mut self, tag: u64, slot: usize) {
        let mut bucket = self.home(tag);
        while self.buckets[bucket].0 != 0 {
            bucket = self.next(bucket);
        }
        self.buckets[bucket] = (tag, slot as u32);
    }

    /// Takes a tag that is there away.
    pub(super) fn remove(&mut self, tag: u64) {
        let mut gap = self.home(tag);
        while self.buckets[gap].0 != tag {
            gap = self.next(gap);
        }
        // What was put behind the gap because that was taken moves into it.
        let mut bucket = gap;
        loop {
            bucket = self.next(bucket);
            let (moved, _) = self.buckets[bucket];
            if moved == 0 {
                break;
            }
            if self.distance(self.home(moved), bucket) >= self.distance(gap, bucket) {
                self.buckets[gap] = self.buckets[bucket];
                gap = bucket;
            }
        }
        self.buckets[gap] = (0, 0);
    }

    /// The bucket where the search for a tag begins. Golden-ratio multiplicative hash (Knuth, volume 3,
    /// section 6.4).
    #[inline(always)]
    fn home(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// How many steps it is from one bucket to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.buckets.len() - 1)
    }
}

impl Index {
    /// Takes all tags away.
    pub(super) fn clear(&mut self) {
        self.buckets.fill((0, 0));
    }
}
