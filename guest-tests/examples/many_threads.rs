//! Writes a guest of sixteen hardware threads to a file, for `ci/determinism`: Knights Corner's four cores,
//! which all count, are interrupted by their counters, and write the same memory without waiting for each
//! other.
//!
//! usage: many_threads FILE

use std::error::Error;

use guest_tests::guest::{EFLAGS_IF, EOI, LVTPC};
use guest_tests::msr::{ALL_THREADS, GLOBAL_OVF_CTRL, INT, OS};
use guest_tests::part::{KNC, event};
use guest_tests::{Guest, PMI_VECTOR, SCRATCH};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edx, esi};
use vpmu::program::Image;

const THREADS: u32 = 16;
/// Rounds of each thread.
const ROUNDS: u32 = 2_000;
/// A thread is interrupted so many cycles after it was last.
const PERIOD: u64 = 5_000;
/// DATA_READ_MISS_OR_WRITE_MISS (Intel 327357-001).
const MISSES: u64 = 0x29;

/// What each thread leaves, 8 bytes a thread: how often it was interrupted, its counters, and the last of the
/// numbers that it has drawn and found.
const TAKEN: u32 = SCRATCH;
const CYCLES: u32 = SCRATCH + 0x100;
const MISSED: u32 = SCRATCH + 0x200;
const FOUND: u32 = SCRATCH + 0x300;
/// What all write: 64 KiB, twice what a data cache has.
const TABLE: u32 = 0x60_0000;
const TABLE_BYTES: u32 = 0x1_0000;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: many_threads FILE")?;
    Ok(std::fs::write(file, guest()?.bytes)?)
}

fn guest() -> guest_tests::Result<Image> {
    let preset = PERIOD.wrapping_neg();
    Guest::assemble(&KNC, |g| {
        // Counter 0 has overflowed.
        let mut over = g.create_label();
        g.jmp(over)?;
        let entry = g.here()?;
        g.gate(PMI_VECTOR, entry, 0);
        for register in [eax, ecx, edx] {
            g.push(register)?;
        }
        g.inc(dword_ptr(ebp * 8 + TAKEN))?;
        g.write_msr(KNC.perfctr(0), preset & KNC.width_mask())?;
        g.write_msr(GLOBAL_OVF_CTRL, 1)?;
        g.write_lapic(EOI, 0)?;
        for register in [edx, ecx, eax] {
            g.pop(register)?;
        }
        g.iretd()?;
        g.place(&mut over)?;

        g.on_many_processors(THREADS, |g| {
            g.write_lapic(LVTPC, PMI_VECTOR.into())?;
            g.start(1, event(MISSES), OS | ALL_THREADS, 0)?;
            g.start(0, KNC.cycles, OS | INT, preset)?;
            g.push(EFLAGS_IF)?;
            g.popfd()?;
            // Numbers of the thread's own by xorshift, which say what is read; what is found there, and so
            // which way it goes, depends on who has written it last.
            g.imul_3(esi, ebp, 0x9E37)?;
            g.add(esi, 0x1234_5678)?;
            g.mov(ebx, ROUNDS)?;
            let again = g.here()?;
            for (left, bits) in [(true, 13), (false, 17), (true, 5)] {
                g.mov(eax, esi)?;
                if left {
                    g.shl(eax, bits)?;
                } else {
                    g.shr(eax, bits)?;
                }
                g.xor(esi, eax)?;
            }
            g.mov(eax, esi)?;
            g.and(eax, (TABLE_BYTES - 4) as i32)?;
            g.mov(edx, dword_ptr(eax + TABLE))?;
            g.add(dword_ptr(ebp * 8 + FOUND), edx)?;
            g.lea(edx, dword_ptr(edx + esi + 1))?;
            g.mov(dword_ptr(eax + TABLE), edx)?;
            let mut next = g.create_label();
            g.test(edx, 0x10)?;
            g.jz(next)?;
            g.lock().xor(dword_ptr(TABLE), edx)?;
            g.place(&mut next)?;
            g.dec(ebx)?;
            g.jnz(again)?;
            g.cli()?;
            g.stop(0)?;
            g.stop(1)?;
            for (counter, place) in [(0, CYCLES), (1, MISSED)] {
                g.read_msr(KNC.perfctr(counter))?;
                g.leave(place)?;
            }
            Ok(())
        })?;
        for (name, place) in
            [("taken", TAKEN), ("cycles", CYCLES), ("missed", MISSED), ("found", FOUND)]
        {
            g.report_left(name, place)?;
        }
        Ok(())
    })
}
