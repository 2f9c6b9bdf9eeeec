//! Guests whose addresses lead elsewhere from time to time: the local APIC is moved over RAM and away again, paging is
//! turned on and off, page tables and code change. What a processor has found out about addresses before it is reset is
//! not to be seen behind it.

use iced_x86::IcedError;
use iced_x86::code_asm::{byte_ptr, cr0, cr3, cr4, dword_ptr, eax, ecx, edx, esi};

use super::{DATA, DIRECTORY, Made, Random, TABLE, WINDOW, compare};
use crate::program::{LAPIC, Program};
use crate::turns::tests::{each_by_itself, machine, seeds};

/// IA32_APIC_BASE: bit 8 is the bootstrap processor's, bit 11 enables the local APIC, its page is from bit 12 on (Intel
/// SDM volume 3, "Local APIC Status and Location").
const APIC_BASE: u32 = 0x1B;
const ENABLED: u32 = 1 << 11;
/// CR0.PG.
const PG: i32 = i32::MIN;
/// Where the local APIC may be: in its own place, or over pages of RAM that the window leads to.
const PLACES: [u32; 4] = [LAPIC, 0x20_1000, 0x20_2000, 0x20_3000];
/// Pages of the window that are used: few, so that the same are used again.
const WATCHED: u32 = 4;
/// The task priority and the timer's divide configuration: what is written there is there, and nothing comes of it.
const REGISTERS: [u32; 2] = [0x80, 0x3E0];

/// Page tables for RAM and the local APIC's own place, one to one by pages of 4 MiB, and for the window. Paging is off.
fn prepare(p: &mut Program) -> Made {
    for (linear, entry) in [(0, 0x83), (LAPIC, LAPIC & !0x3F_FFFF | 0x83), (WINDOW, TABLE | 3)] {
        p.mov(dword_ptr(DIRECTORY + (linear >> 22) * 4), entry)?;
    }
    for n in 0..WATCHED {
        p.mov(dword_ptr(TABLE + 4 * n), (0x20_0000 + n * 0x1000) | 3)?;
    }
    p.mov(eax, DIRECTORY)?;
    p.mov(cr3, eax)?;
    p.mov(eax, cr4)?;
    p.or(eax, 0x10)?;
    p.mov(cr4, eax)
}

/// One of the things that make addresses lead elsewhere, or that follow one.
fn work(p: &mut Program, random: &mut Random) -> Made {
    let sum = DATA + 0x200;
    match random.below(24) {
        0 => {
            let place = PLACES[random.below(4) as usize];
            p.mov(ecx, APIC_BASE)?;
            p.mov(eax, place | if random.below(6) == 0 { 0 } else { ENABLED })?;
            p.xor(edx, edx)?;
            p.wrmsr()?;
        }
        1 => {
            p.mov(eax, cr0)?;
            p.xor(eax, PG)?;
            p.mov(cr0, eax)?;
        }
        2 => {
            p.xor(dword_ptr(TABLE + 4 * random.below(WATCHED)), 0x1_0000)?;
            match random.below(3) {
                0 => {
                    p.mov(eax, cr3)?;
                    p.mov(cr3, eax)?;
                }
                1 => p.invlpg(byte_ptr(WINDOW + random.below(WATCHED) * 0x1000))?,
                _ => {}
            }
        }
        3 | 4 => patched(p, random, sum)?,
        _ => {
            let register = REGISTERS[random.below(2) as usize];
            let at = match random.below(4) {
                0 => WINDOW + random.below(WATCHED) * 0x1000,
                _ => PLACES[random.below(4) as usize],
            };
            match random.below(3) {
                0 => p.mov(dword_ptr(at + register), random.below(12))?,
                1 => p.add(dword_ptr(at + register), 1)?,
                _ => {}
            }
            p.mov(eax, dword_ptr(at + register))?;
            p.add(dword_ptr(sum), eax)?;
            p.rol(dword_ptr(sum), 1)?;
        }
    }
    Ok(())
}

/// A function is called whose number changes each time.
fn patched(p: &mut Program, random: &mut Random, sum: u32) -> Made {
    let mut over = p.create_label();
    p.call(over)?;
    p.db(&[0xBA])?;
    p.dd(&[random.below(1000)])?;
    p.add(dword_ptr(sum + 4), edx)?;
    p.ret()?;
    p.place(&mut over)?;
    p.pop(esi)?;
    p.call(esi)?;
    if random.below(3) != 0 {
        p.add(dword_ptr(esi + 1), 1)?;
    }
    p.call(esi)
}

fn guest(random: &mut Random, cpus: u32) -> Result<Vec<u8>, IcedError> {
    let script = |p: &mut Program| (0..40).try_for_each(|_| work(p, random));
    each_by_itself(cpus, false, prepare, script)
}

#[test]
fn addresses_that_lead_elsewhere() {
    for cpu in ["p6", "k8"] {
        for cpus in [1, 2] {
            for seed in seeds(600, 60) {
                let random = &mut Random(seed);
                let bytes = guest(random, cpus).unwrap();
                let last = 500 + u64::from(random.below(4000));
                let name = format!("{cpu}, {cpus} processors, seed {seed}");
                compare(&name, || machine(cpu, cpus, &bytes), last, random);
            }
        }
    }
}
