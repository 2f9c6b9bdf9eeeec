//! What holds up the pipelines.

use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{
    al, byte_ptr, cx, ds, dword_ptr, eax, ebx, ecx, edx, es, esp, fs, gs, st0,
};

use super::Program;
use super::code::{call_code, chain};
use super::operations::out_of_order;

pub(super) const PROGRAMS: &[Program] = &[
    only("length-changing prefixes", "8 ADD of constants of 16 bits", |g| {
        (0..8).try_for_each(|_| g.add(cx, 0x1234))
    }),
    only("parts of registers", "8 times MOV to AL, then from EAX", |g| {
        for _ in 0..8 {
            g.mov(al, 1)?;
            g.mov(edx, eax)?;
        }
        Ok(())
    }),
    only("segments again", "ES, DS, FS and GS loaded, each 4 times in a row", segments),
    Program {
        prepare: stores_across_quadwords,
        ..only("stores drained", "8 stores across 8 bytes, then CPUID", |g| {
            stores_across_quadwords(g)?;
            g.cpuid()
        })
    },
    Program {
        prepare: stores_across_quadwords,
        ..only("stores before OUT", "8 stores across 8 bytes, then OUT", |g| {
            stores_across_quadwords(g)?;
            g.out(0x80, al)
        })
    },
    only("serialised", "4 times XOR and CPUID", |g| {
        for _ in 0..4 {
            g.xor(eax, eax)?;
            g.cpuid()?;
        }
        Ok(())
    }),
    only("chain of products", "64 multiplications, each of the result before", |g| {
        (0..64).try_for_each(|_| g.imul_2(eax, eax))
    }),
    Program {
        prepare: |g| g.fninit(),
        ..only("chain of sums", "FLD1, then 64 FADD, each of the sum before", |g| {
            g.fld1()?;
            (0..64).try_for_each(|_| g.fadd_2(st0, st0))
        })
    },
    Program {
        set_up: |g| {
            g.mov(eax, SCRATCH)?;
            g.mov(dword_ptr(SCRATCH), eax)
        },
        ..only("chain of loads", "32 loads, each from the address loaded before", |g| {
            g.mov(eax, SCRATCH)?;
            (0..32).try_for_each(|_| g.mov(eax, dword_ptr(eax)))
        })
    },
    only("NOPs behind divisions", "8 times DIV and 48 NOP", |g| {
        one(g)?;
        for _ in 0..8 {
            g.div(ecx)?;
            (0..48).try_for_each(|_| g.nop())?;
        }
        Ok(())
    }),
    only("stores behind a division", "DIV and 40 stores", |g| {
        one(g)?;
        g.mov(ebx, SCRATCH)?;
        g.div(ecx)?;
        (0..40).try_for_each(|_| g.mov(dword_ptr(ebx), ecx))
    }),
    only("returns behind divisions", "8 times DIV, then RET to where no call came from", |g| {
        one(g)?;
        for _ in 0..8 {
            let mut there = g.create_label();
            g.call(there)?;
            g.place(&mut there)?;
        }
        g.add(esp, 8 * 4)?;
        for _ in 0..8 {
            let mut there = g.create_label();
            g.div(ecx)?;
            g.push_address(there)?;
            g.ret()?;
            g.place(&mut there)?;
        }
        Ok(())
    }),
    only("far returns behind divisions", "8 times DIV, PUSH, PUSH, RETF", |g| {
        one(g)?;
        for _ in 0..8 {
            let mut there = g.create_label();
            g.div(ecx)?;
            g.push(8)?;
            g.push_address(there)?;
            g.retf()?;
            g.place(&mut there)?;
        }
        Ok(())
    }),
    Program {
        prepare: two_lines,
        ..only("bank conflicts", "16 loads, in turn from two lines, of one bank", two_lines)
    },
    only("loads behind stores", "8 times a store of a byte, then a load of the doubleword", |g| {
        g.mov(ebx, SCRATCH)?;
        for _ in 0..8 {
            g.mov(byte_ptr(ebx), al)?;
            g.mov(edx, dword_ptr(ebx))?;
        }
        Ok(())
    }),
    Program {
        set_up: |g| chain(g, 64, 64),
        ..only("jumps", "64 jumps, which the instruction cache has", call_code)
    },
];

/// A program for the parts whose pipelines execute out of order.
const fn only(name: &'static str, does: &'static str, body: fn(&mut Guest) -> Result) -> Program {
    Program { runs_on: out_of_order, ..Program::new(name, does, body) }
}

/// EDX:EAX is 0 and ECX is 1, and stay so when the former is divided by the latter.
fn one(g: &mut Guest) -> Result {
    g.xor(eax, eax)?;
    g.xor(edx, edx)?;
    g.mov(ecx, 1)
}

fn segments(g: &mut Guest) -> Result {
    g.mov(eax, 0x10)?;
    (0..4).try_for_each(|_| g.mov(es, eax))?;
    (0..4).try_for_each(|_| g.mov(ds, eax))?;
    (0..4).try_for_each(|_| g.mov(fs, eax))?;
    (0..4).try_for_each(|_| g.mov(gs, eax))
}

fn stores_across_quadwords(g: &mut Guest) -> Result {
    g.mov(ebx, SCRATCH)?;
    (0..8).try_for_each(|n| g.mov(dword_ptr(ebx + 8 * n + 6), ecx))
}

fn two_lines(g: &mut Guest) -> Result {
    g.mov(ebx, SCRATCH)?;
    for _ in 0..8 {
        g.mov(eax, dword_ptr(ebx))?;
        g.mov(eax, dword_ptr(ebx + 64))?;
    }
    Ok(())
}
