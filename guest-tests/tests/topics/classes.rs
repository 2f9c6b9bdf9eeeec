//! Instructions and accesses by kind: on K8 02h, 20h, 24h, 26h, 27h, 40h, 47h, 4Bh, CBh (BKDG
//! 10.2.1.1-10.2.1.6), on K7 20h, 40h, 47h (AMD 22007), on P55C 00h, 01h, 0Bh, 0Fh, 1Ch, 1Dh, 22h, 28h,
//! 2Dh, 2Fh, 31h, 34h, on P6 05h, 06h, 43h, B1h, C1h, CCh (Intel MMX Technology manual, tables 6-1 and
//! 6-2; SDM Vol. 3), on Knights Corner 00h, 01h, 28h (Intel 327357-001, table 1-6).

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::msr::{OS, USR};
use guest_tests::part::{Event, Registers, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{
    al, byte_ptr, cx, ds, dword_ptr, dx, eax, ebx, ecx, edi, edx, es, esi, fs, gs, mm0, mm1,
    qword_ptr, ss, st0, st1, tbyte_ptr, word_ptr, xmm0, xmm1,
};

topics!(
    clflush_and_cpuid,
    floating_point_and_media,
    fast_flags,
    floating_point_operations,
    locked_operations,
    memory_references,
    memory_references_by_level,
    memory_references_by_quadword,
    misaligned_accesses,
    mmx,
    mmx_transitions,
    port_accesses,
    segment_loads,
    segment_loads_by_register,
    software_prefetches,
);

const KERNEL_CS: i32 = 0x08;
const KERNEL_SS: u32 = 0x10;
/// CR4.OSFXSR: SSE instructions are there.
const CR4_OSFXSR: i32 = 1 << 9;

/// An event with its unit mask, at CPL 0.
fn select(code: u64, unit_mask: u64) -> (Event, u64) {
    (event(code | unit_mask << 8), OS)
}

/// Counts `body` for each event.
fn count_each(
    g: &mut Guest,
    selects: &[(&str, (Event, u64))],
    body: impl Fn(&mut Guest) -> Result,
) -> Result {
    selects.iter().try_for_each(|&(name, (event, flags))| g.count(name, event, flags, &body))
}

fn clflush_and_cpuid(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        count_each(g, &[("clflush", select(0x26, 0)), ("cpuid", select(0x27, 0))], |g| {
            g.mov(ebx, SCRATCH)?;
            g.clflush(byte_ptr(ebx))?; // CLFLUSH 1
            g.clflush(byte_ptr(ebx + 64))?; // CLFLUSH 2
            g.clflush(byte_ptr(ebx))?; // CLFLUSH 3
            g.xor(eax, eax)?;
            g.cpuid()?; // CPUID 1; changes EBX
            g.mov(eax, 1)?;
            g.cpuid() // CPUID 2
        })
    })?;
    run(part, &image).expect(&[("clflush", 3), ("cpuid", 2)]);
    Ok(())
}

/// CBh counts whole instructions; its unit masks add up.
fn floating_point_and_media(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("x87", select(0xCB, 0x01)),
            ("mmx", select(0xCB, 0x02)),
            ("packed", select(0xCB, 0x04)),
            ("scalar", select(0xCB, 0x08)),
            ("all", select(0xCB, 0x0F)),
            ("none", select(0xCB, 0x00)),
        ];
        g.set_cr4(CR4_OSFXSR)?;
        count_each(g, &selects, |g| {
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
    run(part, &image).expect(&[
        ("x87", 4),
        ("mmx", 4),
        ("packed", 3),
        ("scalar", 2),
        ("all", 4 + 4 + 3 + 2),
        ("none", 0),
    ]);
    Ok(())
}

/// Comparisons that return their result in EFLAGS.
fn fast_flags(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.set_cr4(CR4_OSFXSR)?;
        g.xorps(xmm0, xmm0)?;
        g.fldz()?;
        g.fldz()?;
        g.count("fast", event(0x02), OS, |g| {
            g.fcomi(st0, st1)?; // 1
            g.fucom(st0, st1)?; // to the x87 status word: not one
            g.comiss(xmm0, xmm0)?; // 2
            g.ucomisd(xmm0, xmm0)?; // 3
            g.cmpps(xmm0, xmm0, 0) // to a register: not one
        })
    })?;
    run(part, &image).expect(&[("fast", 3)]);
    Ok(())
}

/// Computations, and neither loads nor stores.
fn floating_point_operations(part: &'static Part) -> Result {
    let flops = event(if part.registers == Registers::P55c { 0x22 } else { 0xC1 });
    let image = Guest::assemble(part, |g| {
        g.count("flops", flops, OS, |g| {
            g.fld1()?;
            g.fldpi()?;
            g.fadd_2(st0, st1)?; // 1
            g.fmul_2(st0, st1)?; // 2
            g.fsubp(st1, st0)?; // 3
            g.fld1()?;
            g.fdivp(st1, st0)?; // 4
            g.fxch(st0, st1)?;
            g.fstp(dword_ptr(SCRATCH))
        })
    })?;
    run(part, &image).expect(&[("flops", 4)]);
    Ok(())
}

/// A LOCK prefix, and XCHG with memory, which locks without one.
fn locked_operations(part: &'static Part) -> Result {
    let locked = event(if part.registers == Registers::P55c { 0x1C } else { 0x0124 });
    let image = Guest::assemble(part, |g| {
        g.count("locked", locked, OS, |g| {
            g.lock().inc(dword_ptr(SCRATCH))?; // 1
            g.inc(dword_ptr(SCRATCH))?;
            g.xchg(dword_ptr(SCRATCH), ecx)?; // 2
            g.xchg(eax, ecx)?;
            g.lock().cmpxchg(dword_ptr(SCRATCH), ecx) // 3
        })
    })?;
    run(part, &image).expect(&[("locked", 3)]);
    Ok(())
}

/// Data reads and writes of instructions, each element of a string by itself.
fn memory_references(part: &'static Part) -> Result {
    let (reads, writes, both) = (event(0x00), event(0x01), event(0x28));
    let selects = match part.registers {
        Registers::P6 => vec![("both", event(0x43), OS)],
        // No access of these crosses a quadword.
        Registers::Amd => vec![("both", event(0x40), OS)],
        _ => vec![("reads", reads, OS), ("writes", writes, OS), ("both", both, OS)],
    };
    let image = Guest::assemble(part, |g| {
        g.count_each(&selects, |g| {
            let (mut over, mut f) = (g.create_label(), g.create_label());
            g.mov(ebx, SCRATCH)?;
            g.mov(ecx, dword_ptr(ebx))?; // read 1
            g.mov(dword_ptr(ebx + 4), ecx)?; // write 1
            g.add(dword_ptr(ebx), ecx)?; // read 2, write 2
            g.cmp(dword_ptr(ebx), ecx)?; // read 3
            g.push(ecx)?; // write 3
            g.pop(ecx)?; // read 4
            g.mov(ecx, 3)?;
            g.mov(esi, SCRATCH)?;
            g.mov(edi, SCRATCH + 64)?;
            g.rep().movsd()?; // reads 5 to 7, writes 4 to 6
            g.lea(eax, dword_ptr(ebx))?; // none
            g.call(f)?; // write 7
            g.jmp(over)?;
            g.place(&mut f)?;
            g.ret()?; // read 8
            g.place(&mut over)
        })
    })?;
    let outcome = run(part, &image);
    outcome.expect(&[("both", 8 + 7)]);
    if !matches!(part.registers, Registers::P6 | Registers::Amd) {
        outcome.expect(&[("reads", 8), ("writes", 7)]);
    }
    Ok(())
}

/// BKDG 10.2.1.3, 40h: "Each increment represents an eight-byte access, although the instruction may only
/// be accessing a portion of that."
fn memory_references_by_quadword(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count("quadwords", event(0x40), OS, |g| {
            g.mov(ebx, SCRATCH)?;
            g.mov(ecx, dword_ptr(ebx + 4))?; // bytes 4 to 7: 1
            g.mov(ecx, dword_ptr(ebx + 6))?; // 6 to 9: 3
            g.mov(byte_ptr(ebx + 7), al)?; // 7: 4
            g.mov(word_ptr(ebx + 7), cx)?; // 7 and 8: 6
            g.add(dword_ptr(ebx + 13), ecx)?; // 13 to 16, a read and a write: 10
            g.fld(qword_ptr(ebx))?; // 0 to 7: 11
            g.fstp(qword_ptr(ebx + 12))?; // 12 to 19: 13
            g.fld(tbyte_ptr(ebx + 24))?; // 24 to 33: 15
            g.fstp(tbyte_ptr(ebx + 32)) // 32 to 41: 17
        })
    })?;
    run(part, &image).expect(&[("quadwords", 17)]);
    Ok(())
}

/// A call of CPL 3 and the return, with an exception there. What INT and the exception push goes to the
/// stack of CPL 0, which CPL 3 cannot write: it counts there. "All memory references" count (P6: Intel
/// MMX Technology manual, table 6-2); none is taken out but port accesses and page walks (P55C).
fn memory_references_by_level(part: &'static Part) -> Result {
    let (name, event) = match part.registers {
        Registers::P6 => ("both", event(0x43)),
        _ => ("writes", event(0x01)),
    };
    let image = Guest::assemble(part, |g| {
        for (level, select) in [("user", USR), ("system", OS)] {
            for (kind, faults) in [("plain", false), ("fault", true)] {
                g.count(&format!("{level}.{kind}"), event, select, |g| {
                    g.at_cpl3(EFLAGS_CLEAR, |g| {
                        g.push(ecx)?; // write 1 at CPL 3
                        g.pop(ecx)?; // read 1
                        if faults { g.attempt(|g| g.ud2()) } else { Ok(()) }
                    })
                })?;
            }
        }
        Ok(())
    })?;
    let both = u64::from(name == "both");
    // `attempt`: two writes before and one behind.
    let user = [1 + both, 1 + both + 3];
    // There: PUSH, a MOV, five PUSH; IRETD reads five. Back: INT pushes five; MOV and RET read.
    let system = 1 + 1 + 5 + 5 + both * (5 + 1 + 1);
    // The exception pushes five. Its handler writes by three PUSH and three MOV, and reads by three
    // MOV, POP and IRETD, which reads five.
    let handler = 5 + (3 + 3) + both * (3 + 1 + 5);
    run(part, &image).expect(&[
        ("user.plain", user[0]),
        ("user.fault", user[1]),
        ("system.plain", system),
        ("system.fault", system + handler),
    ]);
    Ok(())
}

/// Accesses across an eight-byte boundary; on P55C those of up to four bytes across a four-byte
/// boundary too.
fn misaligned_accesses(part: &'static Part) -> Result {
    let misaligned = event(match part.registers {
        Registers::P55c => 0x0B,
        Registers::P6 => 0x05,
        Registers::Amd | Registers::Knc => 0x47,
    });
    let image = Guest::assemble(part, |g| {
        g.count("misaligned", misaligned, OS, |g| {
            g.mov(ebx, SCRATCH)?;
            g.mov(ecx, dword_ptr(ebx + 4))?; // bytes 4-7
            g.mov(ecx, dword_ptr(ebx + 5))?; // bytes 5-8: 1
            g.mov(ecx, dword_ptr(ebx + 1))?; // bytes 1-4: P55C alone
            g.mov(word_ptr(ebx + 1), cx)?; // bytes 1-2, odd but within the four
            g.fild(qword_ptr(ebx + 8))?; // bytes 8-15
            g.fistp(qword_ptr(ebx + 9))?; // bytes 9-16: 2
            g.mov(word_ptr(ebx + 7), 1)?; // bytes 7-8: 3
            g.mov(byte_ptr(ebx + 7), 1)?; // byte 7
            g.push(ebx)?; // the stack is aligned
            g.pop(ebx)
        })
    })?;
    let p55c = u64::from(part.registers == Registers::P55c);
    run(part, &image).expect(&[("misaligned", 3 + p55c)]);
    Ok(())
}

/// EMMS, saturating instructions and what they saturated, loads and stores of MMX registers.
fn mmx(part: &'static Part) -> Result {
    let on_1 = |code| Event { code, counter: 1 };
    let selects = match part.registers {
        Registers::P55c => vec![
            ("emms", event(0x2D), OS),
            ("saturating", event(0x2F), OS),
            ("saturated", on_1(0x2F), OS),
            ("loads", event(0x31), OS),
            ("stores", event(0x34), OS),
        ],
        _ => vec![("saturating", event(0xB1), OS)],
    };
    let image = Guest::assemble(part, |g| {
        g.count_each(&selects, |g| {
            g.movq(mm0, qword_ptr(SCRATCH))?; // load
            g.pxor(mm0, mm0)?;
            g.pcmpeqd(mm1, mm1)?; // -1 in each byte
            g.paddsb(mm0, mm1)?; // saturating: 0 - 1, which fits
            g.paddusb(mm1, mm1)?; // saturating: 255 + 255, which does not
            g.paddb(mm0, mm1)?;
            g.movq(qword_ptr(SCRATCH + 8), mm0)?; // store
            g.movq(mm1, mm0)?;
            g.emms()
        })
    })?;
    let outcome = run(part, &image);
    outcome.expect(&[("saturating", 2)]);
    if part.registers == Registers::P55c {
        outcome.expect(&[("emms", 1), ("saturated", 1), ("loads", 1), ("stores", 1)]);
    }
    Ok(())
}

/// Instructions of MMX behind x87 and the other way round: 2Dh of counter 1 on P55C has both, CCh of
/// P6 has a unit mask for each.
fn mmx_transitions(part: &'static Part) -> Result {
    let selects = match part.registers {
        Registers::P55c => vec![("both", Event { code: 0x2D, counter: 1 }, OS)],
        _ => vec![("to x87", event(0x00CC), OS), ("to MMX", event(0x01CC), OS)],
    };
    let image = Guest::assemble(part, |g| {
        g.emms()?;
        g.count_each(&selects, |g| {
            g.fld1()?; // to x87
            g.fstp(dword_ptr(SCRATCH))?;
            g.pxor(mm0, mm0)?; // to MMX
            g.movq(mm1, mm0)?;
            g.emms()?;
            g.fldz()?; // to x87
            g.fstp(dword_ptr(SCRATCH))?;
            g.emms() // to MMX
        })
    })?;
    let outcome = run(part, &image);
    if part.registers == Registers::P55c {
        outcome.expect(&[("both", 4)]);
    } else {
        outcome.expect(&[("to x87", 2), ("to MMX", 2)]);
    }
    Ok(())
}

/// Cycles of the I/O port space, each element of a string by itself.
fn port_accesses(part: &'static Part) -> Result {
    /// POST codes: nobody minds them.
    const PORT: i32 = 0x80;
    let image = Guest::assemble(part, |g| {
        g.count("ports", event(0x1D), OS, |g| {
            g.out(PORT, al)?; // 1
            g.in_(al, PORT)?; // 2
            g.mov(edx, PORT)?;
            g.out(dx, eax)?; // 3
            g.mov(ecx, 4)?;
            g.mov(esi, SCRATCH)?;
            g.rep().outsb() // 4 to 7
        })
    })?;
    run(part, &image).expect(&[("ports", 7)]);
    Ok(())
}

/// Eight loads of segment registers, two of them of ES and of FS.
fn load_segments(g: &mut Guest) -> Result {
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
    g.push_address(there)?;
    g.retf()?; // CS 1; the stack stays, and so does SS
    g.place(&mut there)
}

fn segment_loads(part: &'static Part) -> Result {
    let any = event(match part.registers {
        Registers::P55c => 0x0F,
        Registers::P6 => 0x06,
        Registers::Amd | Registers::Knc => 0x7F20,
    });
    let image = Guest::assemble(part, |g| g.count("any", any, OS, load_segments))?;
    run(part, &image).expect(&[("any", 8)]);
    Ok(())
}

/// 20h counts loads of each segment register; its unit masks add up, and 40h (HS) is never loaded.
fn segment_loads_by_register(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("es", select(0x20, 0x01)),
            ("cs", select(0x20, 0x02)),
            ("ss", select(0x20, 0x04)),
            ("ds", select(0x20, 0x08)),
            ("fs", select(0x20, 0x10)),
            ("gs", select(0x20, 0x20)),
            ("hs", select(0x20, 0x40)),
        ];
        count_each(g, &selects, load_segments)
    })?;
    run(part, &image).expect(&[
        ("es", 2),
        ("cs", 1),
        ("ss", 1),
        ("ds", 1),
        ("fs", 2),
        ("gs", 1),
        ("hs", 0),
    ]);
    Ok(())
}

fn software_prefetches(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("load", select(0x4B, 0x01)),
            ("store", select(0x4B, 0x02)),
            ("nta", select(0x4B, 0x04)),
            ("all", select(0x4B, 0x07)),
        ];
        g.mov(ebx, SCRATCH)?;
        count_each(g, &selects, |g| {
            g.prefetcht0(byte_ptr(ebx))?; // load 1
            g.prefetcht1(byte_ptr(ebx))?; // load 2
            g.prefetcht2(byte_ptr(ebx))?; // load 3
            g.prefetchw(byte_ptr(ebx))?; // store 1
            g.prefetchnta(byte_ptr(ebx))?; // NTA 1
            g.prefetchnta(byte_ptr(ebx + 64)) // NTA 2
        })
    })?;
    run(part, &image).expect(&[("load", 3), ("store", 1), ("nta", 2), ("all", 6)]);
    Ok(())
}
