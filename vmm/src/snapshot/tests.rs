//! A machine that is cut off, put aside and put back goes on as if it had not been. The oracle is the run that was
//! not cut: all of its state, to the last field, and its RAM.

use ciborium::Value;
use iced_x86::IcedError;
use iced_x86::code_asm::{
    al, bl, byte_ptr, cr0, cr3, cr4, dword_ptr, eax, ebx, ecx, edi, edx, esi, esp, mm0, mm1,
    qword_ptr, st0, st1,
};
use pmu_model::Personality;
use uarch::bus::Traffic;

use super::*;
use crate::boot::Payload;
use crate::config::Config;
use crate::console::Console;
use crate::framed;
use crate::machine::End;
use crate::program::{DATA, Program};
use crate::stop::Stop;
use crate::turns::Slice;
use crate::turns::tests::{
    ASSERT, ICR, ICR_HIGH, INITIAL, IPI_VECTOR, Made, Random, core_guest, cores_guest,
    each_by_itself, guest, machine, seeds, spin,
};

mod addresses;

/// Until so many instructions have retired.
pub(crate) fn run(machine: &mut Machine, instructions: u64) -> End {
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    machine.run_until(&Stop::new().unwrap(), Some(instructions), &mut console).unwrap()
}

/// A machine made of a snapshot file.
fn loaded(bytes: &[u8]) -> Machine {
    let snapshot = Snapshot::from_bytes(bytes).unwrap();
    let identity = snapshot.identity.clone();
    let config: Config = identity.config(Payload::Snapshot(snapshot)).unwrap();
    Machine::new(&config).unwrap()
}

/// Where two machines differ. Which thread of a core its models were told of last is left out: where a run is cut,
/// threads wait in other pieces.
pub(crate) fn difference(one: &mut Machine, other: &mut Machine) -> Option<String> {
    let [a, b] = [&mut *one, &mut *other].map(|machine| {
        machine.soft.forget_order();
        let mut state = machine.state();
        state.forget_cuts();
        serde_json::to_value(state).unwrap()
    });
    if let Some(difference) = difference::between(&a, &b) {
        return Some(difference);
    }
    (ram::Pages::of(&one.memory) != ram::Pages::of(&other.memory)).then(|| "RAM".into())
}

/// What becomes of a machine at each cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// It goes on.
    Nothing,
    /// It is made anew of a snapshot file.
    Load,
    /// It runs ahead, and is reset to a snapshot of the cut or of an earlier one, from where it comes here again.
    Reset,
}

/// A machine and the snapshots that are kept of it.
struct Cut {
    machine: Machine,
    kept: Vec<Snapshot>,
}

impl Cut {
    fn new(machine: Machine) -> Self {
        Self { machine, kept: Vec::new() }
    }

    /// Does what is to be done at a cut. The choices are those of the place alone.
    fn cut(&mut self, here: u64, at: At) {
        match at {
            At::Nothing => {}
            At::Load => self.machine = loaded(&self.machine.snapshot().to_bytes()),
            At::Reset => {
                let random = &mut Random(here);
                self.kept.push(self.machine.snapshot());
                for _ in 0..=random.below(2) {
                    run(&mut self.machine, here + u64::from(1 + random.below(3000)));
                    let n = random.below(self.kept.len() as u32) as usize;
                    self.machine.reset_to(&self.kept[n]).unwrap();
                    assert_eq!(self.machine.state(), self.kept[n].state);
                    if random.below(4) == 0 && self.kept.len() > 1 {
                        // What RAM was when it was last looked at is no longer there to compare with.
                        self.kept.remove(n);
                    }
                    run(&mut self.machine, here);
                }
            }
        }
    }
}

/// The first instruction behind which a machine that is cut there differs from one that is not, and in what.
fn first_difference(make: &impl Fn() -> Machine, cuts: &[u64], last: u64, what: At) -> String {
    let differ = |at: u64| {
        let (mut whole, mut cut) = (make(), Cut::new(make()));
        run(&mut whole, at);
        for &before in cuts.iter().filter(|&&before| before < at) {
            run(&mut cut.machine, before);
            cut.cut(before, what);
        }
        run(&mut cut.machine, at);
        difference(&mut whole, &mut cut.machine)
    };
    let (mut same, mut differs) = (0, last);
    while differs - same > 1 {
        let middle = same.midpoint(differs);
        match differ(middle) {
            Some(_) => differs = middle,
            None => same = middle,
        }
    }
    format!("behind instruction {differs}: {:?}", differ(differs))
}

/// Runs a guest to instruction `last` at once, and in parts with each of [`At`] between any two; all must be the same
/// then.
fn compare(name: &str, make: impl Fn() -> Machine, last: u64, random: &mut Random) {
    let mut whole = make();
    let end = run(&mut whole, last);
    for what in [At::Nothing, At::Load, At::Reset] {
        let mut cut = Cut::new(make());
        let (mut at, mut cuts) = (0, Vec::new());
        let found = loop {
            at = (at + u64::from(1 + random.below((last / 5) as u32))).min(last);
            let ended = run(&mut cut.machine, at);
            if ended != End::Instructions || at == last {
                break ended;
            }
            cuts.push(at);
            cut.cut(at, what);
        };
        assert_eq!(found, end, "{name}, {what:?}");
        if let Some(difference) = difference(&mut whole, &mut cut.machine) {
            let first = first_difference(&make, &cuts, last, what);
            panic!("{name}, {what:?} at {cuts:?}: {difference}; at first {first}");
        }
    }
}

#[test]
fn processors_that_wake_each_other() {
    for cpu in ["p6", "k8"] {
        for cpus in [1, 2, 4] {
            for seed in seeds(300, 12) {
                let random = &mut Random(seed);
                let bytes = guest(random, cpus, false).unwrap();
                let last = 2000 + u64::from(random.below(20_000));
                let name = format!("{cpu}, {cpus} processors, seed {seed}");
                compare(&name, || machine(cpu, cpus, &bytes), last, random);
            }
        }
    }
}

#[test]
fn threads_of_a_core() {
    for cpus in 1..=4 {
        for seed in seeds(400, 8) {
            let random = &mut Random(seed);
            let bytes = core_guest(random, cpus).unwrap();
            let last = 500 + u64::from(random.below(8000));
            let name = format!("{cpus} threads, seed {seed}");
            compare(&name, || machine("knc", cpus, &bytes), last, random);
        }
    }
}

/// Cores of which each has memory of its own, so that they come in one order and in the other by turns.
#[test]
fn cores_with_memory_of_their_own() {
    let mut descended = 0;
    for cpus in [5, 12] {
        for seed in seeds(600, 8) {
            let random = &mut Random(seed);
            let bytes = cores_guest(random, cpus).unwrap();
            let last = 20_000 + u64::from(random.below(30_000));
            let make = || machine("knc", cpus, &bytes);
            compare(&format!("{cpus} threads, seed {seed}"), make, last, random);
            let mut whole = make();
            run(&mut whole, last);
            descended += u32::from(whole.sharing.has_descended());
        }
    }
    assert!(descended > 0);
}

/// Programs a counter to some event of the part that interrupts soon, by the part's own registers.
fn count(p: &mut Program, random: &mut Random, part: &Personality) -> Made {
    let event = &part.events[random.below(part.events.len() as u32) as usize];
    let code = u32::from(event.code);
    let soon = u64::from(1 + random.below(3000)).wrapping_neg();
    // CPL 0 and 3; at times edge, inversion and threshold.
    let compared = if random.below(3) == 0 {
        random.below(2) << 18 | random.below(2) << 23 | random.below(4) << 24
    } else {
        0
    };
    let select = u64::from(code | random.below(256) << 8 | 3 << 16 | 1 << 20 | 1 << 22);
    let select = select | u64::from(compared);
    match part.name {
        "p55c" => {
            let control = |event: u32| event & 0x3F | 3 << 6;
            let cesr = control(code) | control(random.below(64)) << 16;
            p.write_msr(0x12, random.below(1000).into())?;
            p.write_msr(0x11, cesr.into())
        }
        "k7" | "k8" => {
            let n = random.below(4);
            p.write_msr(0xC001_0004 + n, soon & 0xFFFF_FFFF_FFFF)?;
            p.write_msr(0xC001_0000 + n, select)
        }
        _ => {
            let n = random.below(2);
            p.write_msr(0xC1 + n, soon & 0xFFFF_FFFF)?;
            p.write_msr(0x186 + n, select)
        }
    }
}

/// One of the things that models have to do with.
fn work(p: &mut Program, random: &mut Random, cpus: u32, part: &Personality) -> Made {
    let sum = DATA + 0x200;
    match random.below(20) {
        0 => spin(p, 1 + random.below(300))?,
        // Loads and stores, some of lines that others have.
        1 | 2 => {
            let stride = [4, 8, 64, 68, 4096][random.below(5) as usize];
            p.mov(ecx, 1 + random.below(60))?;
            p.mov(esi, 0x20_0000 + random.below(0x1000))?;
            let again = p.here()?;
            p.mov(eax, dword_ptr(esi))?;
            p.add(dword_ptr(esi + 0x8000), eax)?;
            p.add(esi, stride)?;
            p.dec(ecx)?;
            p.jnz(again)?;
        }
        // Branches that nobody foresees.
        3 | 4 => {
            p.mov(ecx, 1 + random.below(80))?;
            p.mov(ebx, 0x1234_5678 ^ random.below(1 << 30))?;
            let again = p.here()?;
            let mut over = p.create_label();
            p.imul_3(ebx, ebx, 1_103_515_245)?;
            p.add(ebx, 12_345)?;
            p.test(ebx, 0x1_0000)?;
            p.jz(over)?;
            p.inc(edx)?;
            p.place(&mut over)?;
            p.dec(ecx)?;
            p.jnz(again)?;
        }
        5 => {
            p.mov(ecx, 1 + random.below(200))?;
            p.mov(esi, 0x21_0000 + random.below(64))?;
            p.mov(edi, 0x22_0000 + random.below(64))?;
            match random.below(4) {
                0 => p.rep().movsd()?,
                1 => p.rep().stosb()?,
                n => {
                    let again = p.here()?;
                    if n == 2 {
                        p.movsd()?;
                    } else {
                        p.stosb()?;
                    }
                    p.dec(ecx)?;
                    p.jnz(again)?;
                }
            }
        }
        6 => {
            p.mov(eax, random.below(1000))?;
            p.mov(edx, 0)?;
            p.mov(ebx, 1 + random.below(100))?;
            p.div(ebx)?;
            p.imul_2(eax, ebx)?;
            p.mov(bl, al)?;
        }
        7 => {
            p.fninit()?;
            p.fld1()?;
            p.fld1()?;
            p.fadd_2(st0, st1)?;
            p.fdiv_2(st0, st1)?;
            p.fstp(qword_ptr(sum + 16))?;
        }
        8 if part.name != "ppro" => {
            p.movq(mm0, qword_ptr(DATA))?;
            p.pmullw(mm1, mm0)?;
            p.paddb(mm0, mm1)?;
            p.movq(qword_ptr(sum + 24), mm0)?;
            p.emms()?;
        }
        9 => {
            p.rdtsc()?;
            p.add(dword_ptr(sum), eax)?;
            p.mov(ecx, random.below(2))?;
            p.rdpmc()?;
            p.lock().add(dword_ptr(sum + 8), eax)?;
        }
        10 => {
            p.write_lapic(INITIAL, 1 + random.below(4000))?;
            p.sti()?;
            p.hlt()?;
            p.cli()?;
        }
        11 => {
            let mut function = p.create_label();
            let mut over = p.create_label();
            p.call(function)?;
            p.call(function)?;
            p.jmp(over)?;
            p.place(&mut function)?;
            p.push(eax)?;
            p.mov(eax, dword_ptr(esp + 4))?;
            p.pop(eax)?;
            p.ret()?;
            p.place(&mut over)?;
        }
        // Through pages whose entries change, mostly without the processor being told.
        12 | 13 => {
            let page = random.below(PAGES);
            let linear = WINDOW + page * 4096 + random.below(0x400) * 4;
            p.mov(eax, dword_ptr(linear))?;
            p.add(dword_ptr(linear ^ 0x800), eax)?;
            p.xor(dword_ptr(TABLE + 4 * random.below(PAGES)), 0x1_0000)?;
            match random.below(6) {
                0 => {
                    p.mov(eax, cr3)?;
                    p.mov(cr3, eax)?;
                }
                1 => p.invlpg(byte_ptr(linear))?,
                _ => {}
            }
        }
        // Code that changes the number that it moves, and how one of its instructions is encoded: NOP (90h) in front of it
        // and a prefix (3Eh) take turns.
        14 | 15 => {
            let mut over = p.create_label();
            p.mov(ecx, 1 + random.below(4))?;
            let again = p.here()?;
            p.call(over)?;
            p.db(&[0x90])?;
            p.shl(edx, 1)?;
            p.mov(edx, random.below(1000))?;
            p.add(dword_ptr(sum + 4), edx)?;
            p.ret()?;
            p.place(&mut over)?;
            p.pop(esi)?;
            p.call(esi)?;
            p.add(dword_ptr(esi + 4), ecx)?;
            if random.below(2) == 0 {
                p.xor(byte_ptr(esi), 0x90 ^ 0x3E)?;
            }
            if random.below(2) == 0 {
                p.call(esi)?;
            }
            p.dec(ecx)?;
            p.jnz(again)?;
        }
        16 if cpus > 1 => {
            p.write_lapic(ICR_HIGH, random.below(cpus) << 24)?;
            p.write_lapic(ICR, ASSERT | u32::from(IPI_VECTOR))?;
        }
        // How memory is cached from now on: by default, or a part of it. The Pentium has no such registers.
        17 if part.name != "p55c" => {
            let of = [UNCACHEABLE, WRITE_THROUGH, WRITE_BACK][random.below(3) as usize];
            match random.below(3) {
                0 => p.write_msr(MTRR_DEF_TYPE, of)?,
                1 => p.write_msr(MTRR_DEF_TYPE, MTRRS_ENABLED | of)?,
                _ => {
                    let base = 0x20_0000 + u64::from(random.below(4)) * 0x1_0000;
                    p.write_msr(MTRR_PHYS_BASE_0, base | of)?;
                    p.write_msr(
                        MTRR_PHYS_MASK_0,
                        0xF_FFFF_0000 | u64::from(random.below(2)) << 11,
                    )?;
                }
            }
        }
        _ => {
            p.sti()?;
            spin(p, 1 + random.below(50))?;
            p.cli()?;
        }
    }
    Ok(())
}

/// Intel SDM volume 3, "Memory Type Range Registers": bit 11 of the default type enables all, bit 11 of a mask its range.
const MTRR_PHYS_BASE_0: u32 = 0x200;
const MTRR_PHYS_MASK_0: u32 = 0x201;
const MTRR_DEF_TYPE: u32 = 0x2FF;
const MTRRS_ENABLED: u64 = 1 << 11;
/// Memory types.
const UNCACHEABLE: u64 = 0;
const WRITE_THROUGH: u64 = 4;
const WRITE_BACK: u64 = 6;

/// Where the page directory and a page table are, the linear addresses that it is for, and how many of its pages are
/// used.
const DIRECTORY: u32 = 0x30_0000;
const TABLE: u32 = 0x30_1000;
const WINDOW: u32 = 0x4000_0000;
const PAGES: u32 = 16;

/// Paging, of all addresses one to one by pages of 4 MiB, but for the window.
fn page(p: &mut Program) -> Made {
    p.xor(ecx, ecx)?;
    let again = p.here()?;
    p.mov(eax, ecx)?;
    p.shl(eax, 22)?;
    p.or(eax, 0x83)?;
    p.mov(dword_ptr(ecx * 4 + DIRECTORY), eax)?;
    p.inc(ecx)?;
    p.cmp(ecx, 1024)?;
    p.jb(again)?;
    p.mov(dword_ptr(DIRECTORY + (WINDOW >> 22) * 4), TABLE | 3)?;
    for n in 0..PAGES {
        p.mov(dword_ptr(TABLE + 4 * n), (0x20_0000 + n * 0x1000) | 3)?;
    }
    p.mov(eax, DIRECTORY)?;
    p.mov(cr3, eax)?;
    p.mov(eax, cr4)?;
    p.or(eax, 0x10)?;
    p.mov(cr4, eax)?;
    p.mov(eax, cr0)?;
    p.or(eax, i32::MIN)?;
    p.mov(cr0, eax)
}

/// A guest that counts what the models of its part tell.
fn counted_guest(
    random: &mut Random,
    cpus: u32,
    part: &Personality,
) -> std::result::Result<Vec<u8>, IcedError> {
    each_by_itself(cpus, false, page, |p| {
        for _ in 0..12 {
            if random.below(3) == 0 {
                count(p, random, part)?;
            }
            work(p, random, cpus, part)?;
        }
        Ok(())
    })
}

/// All events of all parts but Knights Corner, one or several at a time, with all the models that they ask for.
#[test]
fn processors_whose_models_are_told() {
    for part in Personality::ALL.iter().filter(|part| part.name != "knc") {
        for cpus in [1, 2, 4] {
            for seed in seeds(500, 12) {
                let random = &mut Random(seed);
                let bytes = counted_guest(random, cpus, part).unwrap();
                let last = 2000 + u64::from(random.below(20_000));
                let name = format!("{}, {cpus} processors, seed {seed}", part.name);
                compare(&name, || machine(part.name, cpus, &bytes), last, random);
            }
        }
    }
}

/// What was asked of a bus is of the models, and asked for where a turn of several processors begins. A reset has it again,
/// also where they are told nothing in between: here, as nothing is counted any more. One line is read by both.
#[test]
fn a_reset_knows_that_a_bus_was_used() {
    // DATA_CACHE_MISSES (AMD BKDG 26094, section 10.2).
    const EVENT: u64 = 0x41 | 3 << 16 | 1 << 22;
    let bytes = each_by_itself(
        2,
        false,
        |p| p.write_msr(0xC001_0000, EVENT),
        |p| {
            p.mov(eax, dword_ptr(DATA + 0x800))?;
            p.write_msr(0xC001_0000, 0)?;
            p.lock().inc(dword_ptr(DATA))?;
            let idle = p.here()?;
            p.inc(edx)?;
            p.jmp(idle)
        },
    )
    .unwrap();
    let mut machine = machine("k8", 2, &bytes);
    let mut left = u64::MAX;
    let both_have = (0..100).any(|_| {
        assert_eq!(machine.turn(u64::MAX, &mut left, false), Slice::Whole);
        machine.memory.ram().read_u32(u64::from(DATA)) == Some(2)
    });
    assert!(both_have && !machine.soft.is_counting());
    let snapshot = machine.snapshot();
    assert_eq!(machine.turn(u64::MAX, &mut left, false), Slice::Whole);
    assert_eq!(machine.soft.take_traffic(), Traffic::None);
    for _ in 0..2 {
        machine.reset_to(&snapshot).unwrap();
        assert_eq!(machine.soft.take_traffic(), Traffic::Shared);
    }
}

/// The RAM of a file: its runs of pages ascend, and have no more pages than the machine.
#[test]
fn pages_are_those_of_the_machine() {
    let read = |runs: &[(u64, u64)]| {
        let mut bytes = Vec::new();
        for (address, pages) in runs {
            bytes.extend(address.to_le_bytes());
            bytes.extend(pages.to_le_bytes());
            bytes.extend(vec![1; 4096 * *pages as usize]);
        }
        bytes.extend([0; 16]);
        ram::Pages::read(&mut &bytes[..], 3 * 4096).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[(0, 1), (0x1000, 1), (0x9000, 1)]), Ok(()));
    assert_eq!(read(&[(0, 2), (0x3000, 2)]).unwrap_err(), "more pages than its machine has");
    for runs in [[(0x1000, 1), (0, 1)], [(0, 2), (0x1000, 1)]] {
        assert_eq!(read(&runs).unwrap_err(), "a run of pages before the end of another");
    }
}

/// What a file may say of processors and devices, and no guest brings about: a clock of zero ticks, a count of nothing,
/// an interrupt for a processor that there is not.
#[test]
fn what_cannot_be_is_refused() {
    let bytes = guest(&mut Random(300), 2, false).unwrap();
    let mut made = machine("k8", 2, &bytes);
    run(&mut made, 2000);
    let tree: Value = framed::from_cbor(&framed::to_cbor(&made.state())).unwrap();
    let restored = |tree: &Value| {
        let state: State = framed::from_cbor(&framed::to_cbor(tree)).unwrap();
        machine("k8", 2, &bytes).restore(&state)
    };
    assert_eq!(restored(&tree), Ok(()));
    for (path, value) in [
        ("chipset.pit.rate.clock_hz", 0_u64),
        ("chipset.pit.rate.device_hz", 0),
        ("chipset.pit.channels.0.count", 0),
        ("chipset.pit.channels.2.mode", 6),
        ("chipset.rtc.rate.device_hz", 0),
        ("chipset.rtc.clock_hz", 0),
        ("chipset.acpi_pm.rate.clock_hz", 0),
        ("chipset.acpi_pm.bits", 64),
        ("chipset.irq.lapics.each.1.timer.rate.device_hz", 0),
        ("chipset.irq.lapics.each.0.config.clock_hz", 0),
        ("chipset.irq.lapics.timers.first", 7),
        ("cut_off.slice", 1),
        ("device_time", u64::MAX),
        ("now", u64::MAX / 2 + (1 << 33)),
        ("vcpus.1.cpu.time", u64::MAX),
        ("vcpus.1.cpu.cpl", 4),
        ("vcpus.0.cpu.fpu.top", 8),
    ] {
        let mut tree = tree.clone();
        *field(&mut tree, path) = Value::Integer(value.into());
        assert!(restored(&tree).is_err(), "{path}");
    }
}

/// A field of a tree.
fn field<'a>(tree: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(tree, |node, name| match node {
        Value::Map(pairs) => {
            let pair = pairs.iter_mut().find(|(key, _)| key.as_text() == Some(name));
            &mut pair.unwrap_or_else(|| panic!("{path}: no {name}")).1
        }
        Value::Array(values) => &mut values[name.parse::<usize>().unwrap()],
        _ => panic!("{path}: nothing below {name}"),
    })
}
