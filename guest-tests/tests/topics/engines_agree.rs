//! Every event that counts, as many at once as there are counters, over one program with a bit of
//! everything: both engines report the same numbers, to the last digit.

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::msr::{CLOCKS, OS, USR};
use guest_tests::part::{Event, Registers};
use guest_tests::{
    Engine, Guest, Options, PMI_VECTOR, Part, Result, SCRATCH, on_engine, run, run_with,
};
use iced_x86::code_asm::{
    al, byte_ptr, dr0, dr1, dr7, ds, dword_ptr, dx, eax, ebx, ecx, edi, edx, es, esi, fs, mm0, mm1,
    qword_ptr, st0, st1, xmm0, xmm1, xmmword_ptr,
};
use pmu_model::{EventDef, Tier};
use vpmu::config;
use vpmu::program::KERNEL_CS;
use vpmu::engine::soft::{TIER, Timing};

topics!(to_the_last_digit, with_hand_counts);

const CR4_OSFXSR: i32 = 1 << 9;
const ICR: i32 = 0x300;
/// Fixed delivery, asserted, to the sender.
const TO_SELF: u32 = 1 << 18 | 1 << 14;

/// An event by code, unit mask and flag, and the counters that have it as a mask.
struct Live {
    select: u64,
    counters: u8,
}

/// The events that count. Which ones is not in question here, so that the table is the model's own.
fn live(part: &Part) -> Vec<Live> {
    let (personality, _) = config::personality(part.name).expect("a known processor");
    let events = personality.events.iter();
    let live = personality.live.of(TIER);
    let counting = events.filter(|e| ["live", "partial"].contains(&e.availability(live).name()));
    // How long a line of the bus is in use, and so how long is waited for it, depends on where in a clock of the
    // bus the processor's clock is, and so on the time since power-on, which KVM does not keep by instructions.
    let lasts_on_the_bus = |e: &&'static EventDef| {
        let foreseen = personality.live.of(Tier::InstructionSet);
        e.selected(e.default_umask)
                .flatten()
                .any(|&signal| signal.is_level() && !foreseen.contains(signal))
    };
    counting
        .filter(|e| !lasts_on_the_bus(e))
        .flat_map(|e| {
            let select = u64::from(e.code) | u64::from(e.default_umask) << 8;
            let twice = part.registers == Registers::P55c;
            let selects = [Some(u64::from(e.code) | CLOCKS).filter(|_| twice), Some(select)];
            selects.into_iter().flatten().map(|select| Live { select, counters: e.counters })
        })
        .map(|live| match part.registers {
            // CESR has no unit mask.
            Registers::P55c => Live { select: live.select & (0x3F | CLOCKS), ..live },
            _ => live,
        })
        .collect()
}

/// Deals the events out: groups of one for each counter, as far as there is one for it.
fn groups(part: &Part) -> Vec<Vec<(u32, u64)>> {
    let mut left = live(part);
    let mut groups = Vec::new();
    while !left.is_empty() {
        let mut group = Vec::new();
        for n in 0..part.counters {
            if let Some(at) = left.iter().position(|live| live.counters >> n & 1 != 0) {
                group.push((n, left.remove(at).select));
            }
        }
        assert!(!group.is_empty(), "an event is of no counter");
        groups.push(group);
    }
    groups
}

fn to_the_last_digit(part: &'static Part) -> Result {
    let groups = groups(part);
    let image = Guest::assemble(part, |g| {
        if part.sse {
            g.set_cr4(CR4_OSFXSR)?;
        }
        let (mut program, mut over) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut program)?;
        everything(g)?;
        g.ret()?;
        g.place(&mut over)?;
        for group in &groups {
            for &(n, select) in group {
                g.start(n, Event { code: select, counter: n }, USR | OS, 0)?;
            }
            g.call(program)?;
            for &(n, _) in group {
                g.stop(n)?;
            }
            for &(n, select) in group {
                g.read_pmc(n)?;
                g.report(&format!("{select:x}.{n}"))?;
            }
        }
        Ok(())
    })?;
    // On KVM the host's clock keeps the time, and pipelines have clocks of their own.
    let flat = Options { timing: Some(Timing::Flat), ..Options::DEFAULT };
    let soft = on_engine(&Engine::SOFT, || run_with(part, &image, flat));
    let kvm = run(part, &image);
    agree(part, &soft.serial, &kvm.serial);
    let counts: Vec<_> = soft.serial.lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(counts.len(), groups.iter().map(Vec::len).sum::<usize>());
    // The program has something of most of them in it.
    let none = counts.iter().filter(|(_, value)| value.bytes().all(|digit| digit == b'0')).count();
    assert!(none * 2 < counts.len(), "{none} of {} are zero", counts.len());
    Ok(())
}

/// A loop, calls and string instructions at CPL 3 that were counted by hand, not by either engine: they are the sum that
/// both report. The loop is entered natively and counted from its beginning, so that the engine changes twice an event.
fn with_hand_counts(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.at_cpl3(EFLAGS_CLEAR, native_prelude)?;
        g.count_events(USR, |g| {
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                let (mut over, mut function) = (g.create_label(), g.create_label());
                g.mov(ecx, 300)?; // 1
                let next = g.here()?;
                g.mov(eax, dword_ptr(SCRATCH))?; // 300
                g.add(dword_ptr(SCRATCH + 8), eax)?; // 300
                g.call(function)?; // 300, taken 300
                g.dec(ecx)?; // 300
                g.jnz(next)?; // 300, taken 299
                g.mov(esi, SCRATCH)?; // 1
                g.mov(edi, SCRATCH + 0x100)?; // 1
                g.mov(ecx, 16)?; // 1
                g.rep().movsd()?; // 1, however often it repeats
                g.jmp(over)?; // 1, taken
                g.place(&mut function)?;
                g.ret()?; // 300, taken 300
                g.place(&mut over)
            })
        })
    })?;
    // INT n, by which the program leaves CPL 3, begins there: one instruction, and a far transfer that is taken.
    let by_hand = part.known(&[
        ("instructions", 1 + 6 * 300 + 3 + 1 + 1 + 1),
        ("branches", 300 + 300 + 1 + 300 + 1),
        ("taken", 300 + 299 + 1 + 300 + 1),
        ("far", 1),
        ("returns", 300),
        ("interrupts", 0),
    ]);
    on_engine(&Engine::SOFT, || run(part, &image)).expect(&by_hand);
    run(part, &image).expect(&by_hand);
    Ok(())
}

/// A thousand rounds that nothing counts.
fn native_prelude(g: &mut Guest) -> Result {
    g.mov(ecx, 1000)?;
    let next = g.here()?;
    g.dec(ecx)?;
    g.jnz(next)
}

/// Both reported the same. On Knights Corner, what models tell may differ by a few in a thousand: whether a line that
/// was prefetched is there in time depends on the time since power-on, too.
fn agree(part: &Part, soft: &str, kvm: &str) {
    if part.name != "knc" {
        assert_eq!(soft, kvm);
        return;
    }
    let (personality, _) = config::personality(part.name).expect("a known processor");
    let foreseen = personality.live.of(Tier::InstructionSet);
    let reported = |serial: &str| {
        let value = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_string(), u64::from_str_radix(value, 16).expect("a number")))
        };
        serial.lines().filter_map(value).collect::<Vec<_>>()
    };
    let (soft, kvm) = (reported(soft), reported(kvm));
    assert_eq!(soft.len(), kvm.len());
    for ((name, soft), (other, kvm)) in soft.into_iter().zip(kvm) {
        assert_eq!(name, other);
        let select = name.split('.').next().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let of = |e: &&'static EventDef| {
            Some(u64::from(e.code) | u64::from(e.default_umask) << 8) == select
        };
        let event = personality.events.iter().find(of);
        let exact = event.is_none_or(|e| {
            e.selected(e.default_umask).flatten().all(|&signal| foreseen.contains(signal))
        });
        let apart = if exact { 0 } else { 1 + soft / 250 };
        assert!(soft.abs_diff(kvm) <= apart, "{name}: {soft} on soft, {kvm} on KVM");
    }
}

/// A bit of everything that there is on the part.
fn everything(g: &mut Guest) -> Result {
    integer(g)?;
    transfers(g)?;
    strings_and_ports(g)?;
    system(g)?;
    floating_point(g)?;
    if g.part.name == "knc" {
        vector_unit(g)?;
    }
    g.at_cpl3(EFLAGS_CLEAR, |g| {
        integer(g)?;
        strings(g)?;
        floating_point(g)?;
        g.attempt(|g| g.ud2())?;
        g.attempt(|g| g.hlt())?;
        g.xor(ecx, ecx)?;
        g.rdpmc()
    })
}

/// Knights Corner's: each kind of its prefetches, loads and stores of vectors, evictions; and more lines written than
/// its second level has.
fn vector_unit(g: &mut Guest) -> Result {
    const TABLES: u32 = SCRATCH + 0x1_0000;
    const LINES: u32 = 0x40_0000;
    let absolute = |bytes: &[u8], at: u32| [bytes, &[0x25], &at.to_le_bytes()].concat();
    // VEX.L0.0F 18 /0 to /7: VPREFETCHNTA, 0, 1, 2, ENTA, E0, E1 and E2.
    let prefetches = (0..16u32).map(|n| {
        absolute(&[0xC5, 0xF8, 0x18, 0x04 | (n as u8 % 8) << 3], LINES + 0x1000 * n)
    });
    // MVEX.512.0F.W0 28 /r and 29 /r: VMOVAPS from and to memory, of lines that were prefetched and others.
    let moves = [0x28, 0x29].into_iter().flat_map(|opcode| {
        (8..24).map(move |n| absolute(&[0x62, 0xF1, 0x78, 0x08, opcode, 0x04], LINES + 0x1000 * n))
    });
    // VEX.L0.F2.0F AE /7 and F3: CLEVICT0 and CLEVICT1.
    let evictions =
        [0xFB, 0xFA].map(|prefix| absolute(&[0xC5, prefix, 0xAE, 0x3C], LINES + 0x8000));
    let code: Vec<_> = prefetches.chain(moves).chain(evictions).flatten().collect();
    g.in_64_bit_mode(TABLES, &code)?;
    g.mov(ebx, LINES)?;
    g.mov(ecx, 12_000)?;
    let next = g.here()?;
    g.mov(dword_ptr(ebx), ecx)?;
    g.add(ebx, 64)?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn integer(g: &mut Guest) -> Result {
    g.mov(ebx, SCRATCH)?;
    g.mov(ecx, 25)?;
    let next = g.here()?;
    g.mov(eax, dword_ptr(ebx + ecx * 4))?;
    g.imul_3(eax, ecx, 77)?;
    g.add(dword_ptr(ebx + ecx * 4), eax)?;
    g.xor(edx, edx)?;
    g.div(ecx)?;
    g.mov(dword_ptr(ebx + ecx * 4 + 1), edx)?; // misaligned
    g.lock().xadd(dword_ptr(ebx), eax)?;
    g.xchg(dword_ptr(ebx + 8), eax)?;
    g.bswap(eax)?;
    g.push(eax)?;
    g.pop(edx)?;
    g.test(ecx, 3)?;
    let mut skip = g.create_label();
    g.jz(skip)?;
    g.inc(edx)?;
    g.place(&mut skip)?;
    g.dec(ecx)?;
    g.jnz(next)
}

fn transfers(g: &mut Guest) -> Result {
    let (mut function, mut over) = (g.create_label(), g.create_label());
    g.call(function)?;
    g.address(eax, function)?;
    g.call(eax)?;
    g.jmp(over)?;
    g.place(&mut function)?;
    g.ret()?;
    g.place(&mut over)?;
    let mut there = g.create_label();
    g.push(i32::from(KERNEL_CS))?;
    g.push_address(there)?;
    g.retf()?;
    g.place(&mut there)
}

fn strings(g: &mut Guest) -> Result {
    g.cld()?;
    g.mov(esi, SCRATCH)?;
    g.mov(edi, SCRATCH + 0x200)?;
    g.mov(ecx, 9)?;
    g.rep().movsd()?;
    g.mov(ecx, 5)?;
    g.rep().stosb()?;
    g.mov(edi, SCRATCH)?;
    g.mov(ecx, 100)?;
    g.repne().scasb()
}

fn strings_and_ports(g: &mut Guest) -> Result {
    /// POST codes: nobody minds them.
    const PORT: i32 = 0x80;
    strings(g)?;
    g.out(PORT, al)?;
    g.mov(edx, PORT)?;
    g.out(dx, eax)?;
    g.mov(ecx, 4)?;
    g.mov(esi, SCRATCH)?;
    g.rep().outsb()
}

fn system(g: &mut Guest) -> Result {
    g.mov(eax, 0x10)?;
    g.mov(fs, eax)?;
    g.push(ds)?;
    g.pop(es)?;
    // Breakpoints that are not enabled: a write to SCRATCH, an access next to it.
    g.mov(eax, SCRATCH)?;
    g.mov(dr0, eax)?;
    g.add(eax, 4)?;
    g.mov(dr1, eax)?;
    g.mov(eax, 0x400 | 0b1101 << 16 | 0b1111 << 20)?;
    g.mov(dr7, eax)?;
    g.mov(dword_ptr(SCRATCH), 1)?;
    g.mov(eax, dword_ptr(SCRATCH + 4))?;
    g.wbinvd()?;
    g.invlpg(byte_ptr(SCRATCH))?;
    g.xor(eax, eax)?;
    g.cpuid()?;
    g.attempt(|g| g.ud2())?;
    g.attempt(|g| g.read_msr(0x7FFF_FFFF))?;
    // An interrupt, at once and to end a halt.
    g.sti()?;
    g.nop()?;
    g.write_lapic(ICR, TO_SELF | u32::from(PMI_VECTOR))?;
    g.nop()?;
    g.cli()?;
    g.write_lapic(ICR, TO_SELF | u32::from(PMI_VECTOR))?;
    g.nop()?;
    g.sti()?;
    g.hlt()?;
    g.cli()
}

fn floating_point(g: &mut Guest) -> Result {
    let part = g.part;
    g.fninit()?;
    g.fld1()?;
    g.fldpi()?;
    g.fadd_2(st0, st1)?;
    g.fmul_2(st0, st1)?;
    g.fsqrt()?;
    g.fdivp(st1, st0)?;
    g.fst(dword_ptr(SCRATCH + 0x41))?; // misaligned
    g.fistp(qword_ptr(SCRATCH + 0x48))?;
    if part.mmx {
        g.movq(mm0, qword_ptr(SCRATCH))?;
        g.pcmpeqd(mm1, mm1)?;
        g.paddusb(mm0, mm1)?;
        g.pmaddwd(mm1, mm0)?;
        g.packuswb(mm1, mm0)?;
        g.punpcklbw(mm0, mm1)?;
        g.psllw(mm0, 3)?;
        g.movq(qword_ptr(SCRATCH + 8), mm0)?;
        g.emms()?;
    }
    if part.registers == Registers::Amd {
        g.pfadd(mm0, mm1)?;
        g.femms()?;
        g.prefetchw(byte_ptr(SCRATCH))?;
    }
    if part.sse {
        g.prefetchnta(byte_ptr(SCRATCH))?;
        g.movups(xmm0, xmmword_ptr(SCRATCH + 4))?;
        g.xorps(xmm1, xmm1)?;
        g.addps(xmm1, xmm0)?;
        g.mulss(xmm1, xmm0)?;
        g.comiss(xmm1, xmm0)?;
        g.movups(xmmword_ptr(SCRATCH + 0x80), xmm1)?;
    }
    if part.sse2 {
        g.cvtsi2sd(xmm0, ecx)?;
        g.addsd(xmm0, xmm0)?;
        g.paddq(xmm1, xmm0)?;
        g.clflush(byte_ptr(SCRATCH))?;
        g.mfence()?;
    }
    Ok(())
}
