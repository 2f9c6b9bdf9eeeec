//! Which store a load's data comes from: the manuals' examples, and generated accesses against a scan of
//! all stores.

use uarch::part::pipelines::{K7, K8, P6, PM};
use uarch::pipeline::out_of_order::{Core, Forwarding, RecentStores};

/// A store: address, bytes, whether it is of a high byte.
type Store = (u64, u32, bool);

/// What a load is told behind stores of one instruction each.
fn load(core: &Core, stores: &[Store], address: u64, bytes: u32) -> Forwarding {
    let mut recent = RecentStores::new(core.forwarding);
    for &(address, bytes, high_byte) in stores {
        recent.begin(1);
        recent.store(address, bytes, high_byte);
        recent.executed();
    }
    recent.begin(0);
    recent.load(address, bytes)
}

/// AMD 25112 rev. 3.06, section 5.5, pages 100 to 103; 22007E pages 51 to 54.
#[test]
fn amd_examples() {
    use Forwarding::{Blocked, From, None};
    for core in [&K7, &K8] {
        for (stores, address, bytes, expected) in [
            // The same address, and not wider.
            (&[(0x1000, 4, false)][..], 0x1000, 4, From(0)),
            (&[(0x1000, 4, false), (0x2008, 4, false)], 0x1000, 4, From(1)),
            (&[(0x1000, 4, false)], 0x1000, 2, From(0)),
            // Narrow to wide: a word, then a doubleword; two doublewords, then a quadword.
            (&[(0x1000, 2, false)], 0x1000, 4, Blocked(0)),
            (&[(0x1000, 4, false), (0x1004, 4, false)], 0x1000, 8, Blocked(0)),
            // Wide to narrow, at another address; and the case that is supported.
            (&[(0x1000, 8, false)], 0x1004, 4, Blocked(0)),
            (&[(0x1000, 8, false)], 0x1000, 4, From(0)),
            // FSTP QWORD PTR [24h]; FLD of it: misaligned.
            (&[(0x24, 8, false)], 0x24, 8, Blocked(0)),
            // MOV [10h], BH; MOV DL, [10h].
            (&[(0x10, 1, true)], 0x10, 1, Blocked(0)),
            (&[(0x10, 1, false)], 0x10, 1, From(0)),
            // A word at 10h, then the word at 12h: the same doubleword. That at 14h is in another.
            (&[(0x10, 2, false)], 0x12, 2, Blocked(0)),
            (&[(0x10, 2, false)], 0x14, 2, None),
            // Bytes at 10h and 11h, then that at 10h: the most recent in the doubleword.
            (&[(0x10, 1, false), (0x11, 1, false)], 0x10, 1, Blocked(0)),
            // 4 Kbytes away.
            (&[(0x1010, 4, false)], 0x7010, 4, Blocked(0)),
            (&[(0x1010, 4, false)], 0x7014, 4, None),
        ] {
            assert_eq!(load(core, stores, address, bytes), expected, "{stores:x?} {address:x}");
        }
    }
}

/// A. Fog, "How to optimize for the Pentium family", chapter on partial memory stalls.
#[test]
fn p6_examples() {
    use Forwarding::{Blocked, From, None};
    for core in [&P6, &PM] {
        for (stores, address, bytes, expected) in [
            // MOV BYTE PTR [ESI], AL; MOV EBX, DWORD PTR [ESI].
            (&[(0x5000, 1, false)][..], 0x5000, 4, Blocked(0)),
            // MOV DWORD PTR [ESI], EAX; MOV BL, [ESI]; MOV BH, [ESI+1].
            (&[(0x5000, 4, false)], 0x5000, 1, From(0)),
            (&[(0x5000, 4, false)], 0x5001, 1, Blocked(0)),
            // MOV BYTE PTR [ESI], AL; MOV EBX, [ESI+4092]; MOV ECX, [ESI+4096].
            (&[(0x5000, 1, false)], 0x5000 + 4092, 4, None),
            (&[(0x5000, 1, false)], 0x5000 + 4096, 4, Blocked(0)),
            // The next byte is no match, and alignment does not matter.
            (&[(0x5000, 1, false)], 0x5001, 1, None),
            (&[(0x5003, 4, true)], 0x5003, 4, From(0)),
        ] {
            assert_eq!(load(core, stores, address, bytes), expected, "{stores:x?} {address:x}");
        }
    }
}

/// A store of 128 bits is two of 64 bits: each half of a load comes from its own. The one that is
/// executed last counts.
#[test]
fn halves() {
    let mut recent = RecentStores::new(K8.forwarding);
    recent.begin(2);
    recent.store(0x1000, 16, false);
    recent.executed();
    recent.begin(1);
    recent.store(0x3100, 4, false);
    recent.executed();
    recent.begin(0);
    assert_eq!(recent.load(0x1000, 16), Forwarding::From(1));
    assert_eq!(recent.load(0x1000, 8), Forwarding::From(2));
    assert_eq!(recent.load(0x1008, 8), Forwarding::From(1));
    assert_eq!(recent.load(0x1004, 8), Forwarding::Blocked(1));
}

/// An instruction that executes fewer stores than it stores to addresses: the last has the rest. One
/// that executes more: those that follow are told of all.
#[test]
fn stores_are_counted_as_they_are_executed() {
    let mut recent = RecentStores::new(K8.forwarding);
    recent.begin(2);
    for n in 0..4 {
        recent.store(0x1000 + 8 * n, 4, false);
    }
    recent.executed();
    recent.begin(3);
    recent.store(0x2100, 4, false);
    // Of this instruction one has been executed.
    assert_eq!(recent.load(0x2100, 4), Forwarding::From(0));
    recent.executed();
    recent.begin(0);
    assert_eq!(recent.load(0x2100, 4), Forwarding::From(2));
    assert_eq!(recent.load(0x1000, 4), Forwarding::From(4));
    assert_eq!(recent.load(0x1008, 4), Forwarding::From(3));
    assert_eq!(recent.load(0x1018, 4), Forwarding::From(3));
}

/// An instruction that begins and is not executed, because an exception comes or because it begins again, is none of
/// those that a load counts back over: nor does the pipeline remember a store of it.
#[test]
fn what_was_not_executed_is_not_counted() {
    let mut recent = RecentStores::new(K8.forwarding);
    recent.begin(1);
    recent.store(0x1000, 4, false);
    recent.executed();
    recent.begin(2);
    recent.begin(1);
    recent.store(0x2100, 4, false);
    recent.executed();
    recent.begin(0);
    assert_eq!(recent.load(0x2100, 4), Forwarding::From(0));
    assert_eq!(recent.load(0x1000, 4), Forwarding::From(1));
}

/// 64 stores are looked at.
#[test]
fn old_stores_are_in_the_cache() {
    let behind = |others: u64| {
        let mut stores = vec![(0x1000, 4, false)];
        stores.extend((0..others).map(|n| (0x1100 + 8 * n, 4, false)));
        load(&K8, &stores, 0x1000, 4)
    };
    assert_eq!(behind(63), Forwarding::From(63));
    assert_eq!(behind(64), Forwarding::None);
}

/// What a scan finds among stores of at most eight bytes.
fn scan(core: &Core, stores: &[Store], address: u64, bytes: u32) -> Forwarding {
    let granules = |address: u64, bytes: u32| -> Vec<u64> {
        (0..u64::from(bytes))
            .map(|n| ((address + n) & 0xfff) >> core.forwarding.granule_shift)
            .collect()
    };
    let wanted = granules(address, bytes);
    let found = stores.iter().rev().take(64).position(|&(address, bytes, _)| {
        granules(address, bytes).iter().any(|granule| wanted.contains(granule))
    });
    let Some(back) = found else { return Forwarding::None };
    let (at, size, high_byte) = stores[stores.len() - 1 - back];
    let aligned = [bytes, size].iter().all(|&size| address.is_multiple_of(size.into()));
    let amd = core.forwarding.granule_shift == 2;
    if at == address && bytes <= size && (!amd || aligned && !high_byte) {
        Forwarding::From(back as u8)
    } else {
        Forwarding::Blocked(back as u8)
    }
}

/// Accesses to few addresses in several pages, across the ends of quadwords and of the page.
#[test]
fn equals_a_scan() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    for core in [&K7, &K8, &P6, &PM] {
        let mut forwarded = [0; 3];
        for _ in 0..200 {
            let mut recent = RecentStores::new(core.forwarding);
            let mut stores: Vec<Store> = Vec::new();
            let span = [16, 40, 400, 4096][random(4) as usize];
            let access = |random: &mut dyn FnMut(u64) -> u64| {
                let bytes = 1 << random(4);
                let mut address = 0x10_0ff0 + (random(3) << 12) + random(span);
                if random(2) == 0 {
                    address &= !(bytes - 1);
                }
                (address, bytes as u32)
            };
            for _ in 0..300 {
                let (address, bytes) = access(&mut random);
                if random(2) == 0 {
                    let high_byte = bytes == 1 && random(2) == 0;
                    if random(4) == 0 {
                        // It begins, and then again.
                        recent.begin(1 + random(3));
                    }
                    recent.begin(1);
                    recent.store(address, bytes, high_byte);
                    recent.executed();
                    stores.push((address, bytes, high_byte));
                } else {
                    recent.begin(0);
                    let expected = scan(core, &stores, address, bytes);
                    assert_eq!(recent.load(address, bytes), expected, "{address:x} {bytes}");
                    forwarded[match expected {
                        Forwarding::None => 0,
                        Forwarding::From(_) => 1,
                        Forwarding::Blocked(_) => 2,
                    }] += 1;
                }
            }
        }
        assert!(forwarded.iter().all(|&times| times > 500), "{forwarded:?}");
    }
}
