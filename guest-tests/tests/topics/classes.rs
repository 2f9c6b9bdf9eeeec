//! Instructions and accesses by kind: 02h, 20h, 24h, 26h, 27h, 47h, 4Bh, CBh (BKDG 10.2.1.1-10.2.1.6).

use guest_tests::msr::OS;
use guest_tests::{Guest, Result, SCRATCH, run};
use iced_x86::code_asm::{
    byte_ptr, ds, dword_ptr, eax, ecx, es, fs, gs, mm0, mm1, qword_ptr, rax, rbx, ss, st0, st1,
    word_ptr, xmm0, xmm1,
};

const KERNEL_CS: i32 = 0x08;
const KERNEL_SS: u32 = 0x10;

/// An event with its unit mask, at CPL 0.
fn select(event: u64, unit_mask: u64) -> u64 {
    event | unit_mask << 8 | OS
}

#[test]
fn clflush_and_cpuid() -> Result {
    let image = Guest::assemble(|g| {
        g.count_each(&[("clflush", select(0x26, 0)), ("cpuid", select(0x27, 0))], |g| {
            g.mov(rbx, SCRATCH)?;
            g.clflush(byte_ptr(rbx))?; // CLFLUSH 1
            g.clflush(byte_ptr(rbx + 64))?; // CLFLUSH 2
            g.clflush(byte_ptr(rbx))?; // CLFLUSH 3
            g.xor(eax, eax)?;
            g.cpuid()?; // CPUID 1; changes EBX
            g.mov(eax, 1)?;
            g.cpuid() // CPUID 2
        })
    })?;
    run(&image).expect(&[("clflush", 3), ("cpuid", 2)]);
    Ok(())
}

/// CBh counts whole instructions; its unit masks add up.
#[test]
fn floating_point_and_media() -> Result {
    let image = Guest::assemble(|g| {
        let selects = [
            ("x87", select(0xCB, 0x01)),
            ("mmx", select(0xCB, 0x02)),
            ("packed", select(0xCB, 0x04)),
            ("scalar", select(0xCB, 0x08)),
            ("all", select(0xCB, 0x0F)),
            ("none", select(0xCB, 0x00)),
        ];
        g.count_each(&selects, |g| {
            g.fld1()?; // x87 1
            g.fld1()?; // x87 2
            g.faddp(st1, st0)?; // x87 3
            g.fstp(dword_ptr(SCRATCH))?; // x87 4
            g.pxor(mm0, mm0)?; // MMX 1
            g.paddd(mm1, mm0)?; // MMX 2
            g.pfadd(mm1, mm0)?; // 3DNow! 3
            g.femms()?; // 3DNow! 4
            g.xorps(xmm0, xmm0)?; // packed 1
            g.movaps(xmm1, xmm0)?; // packed 2
            g.addpd(xmm1, xmm0)?; // packed 3
            g.cvtsi2sd(xmm0, ecx)?; // scalar 1
            g.addss(xmm1, xmm0) // scalar 2
        })
    })?;
    run(&image).expect(&[
        ("x87", 4),
        ("mmx", 4),
        ("packed", 3),
        ("scalar", 2),
        ("all", 4 + 4 + 3 + 2),
        ("none", 0),
    ]);
    Ok(())
}

/// Comparisons that return their result in RFLAGS.
#[test]
fn fast_flags() -> Result {
    let image = Guest::assemble(|g| {
        g.xorps(xmm0, xmm0)?;
        g.fldz()?;
        g.fldz()?;
        g.count("fast", select(0x02, 0), |g| {
            g.fcomi(st0, st1)?; // 1
            g.fucom(st0, st1)?; // to the x87 status word: not one
            g.comiss(xmm0, xmm0)?; // 2
            g.ucomisd(xmm0, xmm0)?; // 3
            g.cmpps(xmm0, xmm0, 0) // to a register: not one
        })
    })?;
    run(&image).expect(&[("fast", 3)]);
    Ok(())
}

/// A LOCK prefix, and XCHG with memory, which locks without one.
#[test]
fn locked_operations() -> Result {
    let image = Guest::assemble(|g| {
        g.count("locked", select(0x24, 0x01), |g| {
            g.lock().inc(dword_ptr(SCRATCH))?; // 1
            g.inc(dword_ptr(SCRATCH))?;
            g.xchg(dword_ptr(SCRATCH), ecx)?; // 2
            g.xchg(eax, ecx)?;
            g.lock().cmpxchg(dword_ptr(SCRATCH), ecx) // 3
        })
    })?;
    run(&image).expect(&[("locked", 3)]);
    Ok(())
}

/// Accesses across an eight-byte boundary.
#[test]
fn misaligned_accesses() -> Result {
    let image = Guest::assemble(|g| {
        g.count("misaligned", select(0x47, 0), |g| {
            g.mov(rbx, SCRATCH)?;
            g.mov(ecx, dword_ptr(rbx + 4))?; // bytes 4-7
            g.mov(ecx, dword_ptr(rbx + 5))?; // bytes 5-8: 1
            g.mov(ecx, dword_ptr(rbx + 1))?; // bytes 1-4, odd but within the eight
            g.mov(qword_ptr(rbx + 8), rax)?; // bytes 8-15
            g.mov(qword_ptr(rbx + 9), rax)?; // bytes 9-16: 2
            g.mov(word_ptr(rbx + 7), 1)?; // bytes 7-8: 3
            g.mov(byte_ptr(rbx + 7), 1)?; // byte 7
            g.push(rbx)?; // the stack is aligned
            g.pop(rbx)
        })
    })?;
    run(&image).expect(&[("misaligned", 3)]);
    Ok(())
}

/// 20h counts loads of each segment register; its unit masks add up, and 40h (HS) is never loaded.
#[test]
fn segment_loads() -> Result {
    let image = Guest::assemble(|g| {
        let selects = [
            ("es", select(0x20, 0x01)),
            ("cs", select(0x20, 0x02)),
            ("ss", select(0x20, 0x04)),
            ("ds", select(0x20, 0x08)),
            ("fs", select(0x20, 0x10)),
            ("gs", select(0x20, 0x20)),
            ("hs", select(0x20, 0x40)),
            ("all", select(0x20, 0x7F)),
        ];
        g.count_each(&selects, |g| {
            g.mov(eax, KERNEL_SS)?;
            g.mov(es, eax)?; // ES 1
            g.mov(es, eax)?; // ES 2: the same selector is a load as well
            g.mov(ss, eax)?; // SS 1
            g.mov(ds, eax)?; // DS 1
            g.mov(fs, eax)?; // FS 1
            g.push(fs)?;
            g.pop(fs)?; // FS 2
            g.push(fs)?;
            g.pop(gs)?; // GS 1
            g.mov(eax, gs)?; // a read
            let mut there = g.create_label();
            g.push(KERNEL_CS)?;
            g.lea(rax, byte_ptr(there))?;
            g.push(rax)?;
            g.retf()?; // CS 1; the stack stays, and so does SS
            g.place(&mut there)
        })
    })?;
    run(&image).expect(&[
        ("es", 2),
        ("cs", 1),
        ("ss", 1),
        ("ds", 1),
        ("fs", 2),
        ("gs", 1),
        ("hs", 0),
        ("all", 8),
    ]);
    Ok(())
}

#[test]
fn software_prefetches() -> Result {
    let image = Guest::assemble(|g| {
        let selects = [
            ("load", select(0x4B, 0x01)),
            ("store", select(0x4B, 0x02)),
            ("nta", select(0x4B, 0x04)),
            ("all", select(0x4B, 0x07)),
        ];
        g.mov(rbx, SCRATCH)?;
        g.count_each(&selects, |g| {
            g.prefetcht0(byte_ptr(rbx))?; // load 1
            g.prefetcht1(byte_ptr(rbx))?; // load 2
            g.prefetcht2(byte_ptr(rbx))?; // load 3
            g.prefetchw(byte_ptr(rbx))?; // store 1
            g.prefetchnta(byte_ptr(rbx))?; // NTA 1
            g.prefetchnta(byte_ptr(rbx + 64)) // NTA 2
        })
    })?;
    run(&image).expect(&[("load", 3), ("store", 1), ("nta", 2), ("all", 6)]);
    Ok(())
}
