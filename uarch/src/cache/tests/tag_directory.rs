//! Who is named as having a line, against all lines of all second levels.

use super::generated::Random;
use super::*;
use crate::cache::tag_directory::{Holders, TagDirectory};
use crate::state::{Loader, Saver};
use std::collections::BTreeMap;

/// Knights Corner with caches so small that lines are displaced all the time.
fn small() -> &'static CacheGeometry {
    let array = |sets, ways| ArrayGeometry { sets, ways, replacement: Replacement::TreePseudoLru };
    Box::leak(Box::new(CacheGeometry {
        code: array(2, 2),
        data: array(2, 2),
        second_level: KNC.second_level.map(|it| SecondLevel { array: array(4, 4), ..it }),
        ..KNC
    }))
}

/// That of what second levels hold, by the numbers of their cores.
pub(super) fn of<'a>(
    geometry: &CacheGeometry,
    cores: usize,
    held: impl Iterator<Item = (usize, &'a Line)>,
) -> Option<TagDirectory> {
    let mut directory = TagDirectory::of(geometry, cores)?;
    held.for_each(|(core, line)| directory.enter(core, line.number));
    Some(directory)
}

/// All that there is of cores does what changes lines in second levels, in a few pages, so that they share entries; and
/// now and then all caches are as they were before.
#[test]
fn it_follows_from_what_second_levels_hold() {
    const CORES: usize = 61;
    let geometry = small();
    let mut random = Random(0x0DDB_1A5E);
    let mut machine = Machine::with_threads(geometry, 4 * CORES, 4);
    let mut images: Vec<Vec<u8>> = Vec::new();
    let mut loaded = 0;
    for step in 0..40_000 {
        let processor = random.next(4 * CORES as u64) as usize;
        machine.caches.choose(processor);
        // Pages as far apart as the least and most significant bits of their numbers tell apart.
        let page = random.next(3) << [12, 17, 38][random.next(3) as usize];
        let physical = page | random.next(64) << 6;
        match random.next(100) {
            0..40 => _ = machine.load(processor, physical),
            40..70 => _ = machine.store(processor, physical),
            70..85 => _ = machine.fetch(processor, physical),
            85..90 => machine.run(|caches, context| caches.flush(context, processor, physical)),
            90..93 => {
                let second_level = random.next(2) == 0;
                machine.run(|caches, context| {
                    caches.evict(context, processor, physical, second_level);
                });
            }
            93..95 => {
                machine.run(|caches, context| _ = caches.device_write(context, physical & !63, 64));
            }
            95 => machine.run(|caches, context| caches.invalidate(context, processor)),
            96 => {
                machine.run(|caches, context| caches.write_back_and_invalidate(context, processor));
            }
            97 => {
                let mut image = Vec::new();
                machine.caches.visit(&mut Saver::new(&mut image), 4 * CORES);
                images.push(image);
            }
            _ if !images.is_empty() => {
                let mut loader = Loader::new(&images[random.next(images.len() as u64) as usize]);
                machine.caches.visit(&mut loader, 4 * CORES);
                loader.finish().unwrap();
                loaded += 1;
            }
            _ => {}
        }
        if step % 10 == 0 {
            let caches = &machine.caches;
            let held: Vec<(usize, Line)> = (0..CORES)
                .flat_map(|core| caches.second_level_lines(4 * core).map(move |line| (core, line)))
                .collect();
            let expected = of(geometry, CORES, held.iter().map(|(core, line)| (*core, line)));
            assert!(caches.directory == expected, "step {step}");
        }
    }
    assert!(loaded > 500, "{loaded}");
}

/// Against a list of all: who has a line is named, who is named alone has it or one of the same entry, and of lines that
/// nobody has most name nobody.
#[test]
fn it_names_whoever_has_a_line() {
    let mut seen = [0; 3];
    for seed in 1..40 {
        let mut random = Random(seed * 0x9E37_79B9);
        let cores = 2 + random.next(60) as usize;
        let mut directory = TagDirectory::of(&KNC, cores).unwrap();
        let mut all: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        // Of as many as there is room for, and of so few that more than 255 share an entry.
        let lines = if seed % 4 == 0 { 20 } else { 1 << 20 };
        let number = |random: &mut Random| random.next(lines) * if seed % 3 == 0 { 64 } else { 1 };
        for _ in 0..20_000 {
            let line = number(&mut random);
            let holders = all.entry(line).or_default();
            if random.next(3) != 0 || holders.is_empty() {
                let core = random.next(cores as u64) as usize;
                directory.enter(core, line);
                holders.push(core);
            } else {
                let core = holders.swap_remove(random.next(holders.len() as u64) as usize);
                directory.leave(core, line);
            }
            let line = number(&mut random);
            let holders = all.get(&line).map_or(&[][..], Vec::as_slice);
            match directory.holders(line) {
                Holders::None => assert!(holders.is_empty(), "seed {seed}, line {line:#x}"),
                Holders::One(core) => {
                    assert!(holders.iter().all(|&it| it == core), "seed {seed}, line {line:#x}");
                    seen[1] += 1;
                }
                Holders::Any => seen[2] += 1,
            }
            seen[0] += u32::from(directory.holders(line) == Holders::None);
        }
        if seed % 4 == 0 {
            // They all lose what they have, one after the other.
            for (line, mut holders) in all {
                while let Some(core) = holders.pop() {
                    directory.leave(core, line);
                    let may_have = |core| match directory.holders(line) {
                        Holders::None => false,
                        Holders::One(holder) => holder == core,
                        Holders::Any => true,
                    };
                    assert!(holders.iter().all(|&core| may_have(core)), "seed {seed}, {line:#x}");
                }
            }
        }
    }
    assert!(seen.iter().all(|&seen| seen > 10_000), "{seen:?}");
}

/// 61 threads' arrays of a megabyte each, one behind the other, of which each has 128 KiB in its core's L2: of the next
/// lines, which none has, one in eight shares its entry with another (499,712 lines, 4,194,304 entries), and one in 150
/// with two or more (1 - (1 + 0.119) / e^0.119), if it is as good as chance.
#[test]
fn lines_of_arrays_are_told_apart() {
    for (apart, first) in
        [(1 << 20, 0x40_0000), (1 << 26, 0), (0x8_4000, 0x10_0000), (1 << 30, 7 << 20)]
    {
        let mut directory = TagDirectory::of(&KNC, 61).unwrap();
        let line = |thread: u64, number: u64| (first + thread * apart) / 64 + number;
        for thread in 0..244 {
            (0..2048).for_each(|number| directory.enter(thread as usize / 4, line(thread, number)));
        }
        let next = (0..244).flat_map(|thread| (2048..4096).map(move |number| line(thread, number)));
        let [mut one, mut any] = [0; 2];
        for line in next {
            match directory.holders(line) {
                Holders::None => {}
                Holders::One(_) => one += 1,
                Holders::Any => any += 1,
            }
        }
        assert!(one < 499_712 / 7 && any < 499_712 / 100, "{one}, {any}, {apart:#x} apart");
    }
}
