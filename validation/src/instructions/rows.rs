//! The instructions, and what documents say of them.

use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{
    cl, cx, dword_ptr, eax, ebx, ecx, edx, esi, esp, mm0, mm1, mm2, mm3, mm4, st0, st1, st2, st3,
    st4, xmm0, xmm1,
};

/// What instructions need of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// Nothing.
    Any,
    /// CR4.OSFXSR.
    Sse,
}

/// An instruction, as it is timed.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) setting: Setting,
    /// What goes before the loop. EDI and EBP are the loop's.
    pub(super) setup: fn(&mut Guest) -> Result,
    /// Instruction `n` of the loop.
    pub(super) one: fn(&mut Guest, u32) -> Result,
    pub(super) figures: &'static [Figure],
}

impl Row {
    /// What a document says of a part.
    pub(super) fn of(&self, part: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.parts.contains(&part))
    }
}

/// What a document says of parts.
pub(super) struct Figure {
    parts: &'static [&'static str],
    pub(super) cycles: f64,
    pub(super) source: &'static str,
    /// Why the model has another figure.
    pub(super) outside: Option<&'static str>,
}

const fn says(parts: &'static [&'static str], cycles: f64, source: &'static str) -> Figure {
    Figure { parts, cycles, source, outside: None }
}

const K8: &[&str] = &["k8"];
const K7: &[&str] = &["k7"];
const AMD: &[&str] = &["k7", "k8"];
const P6: &[&str] = &["ppro", "pii", "p6", "pm"];
const P55C: &[&str] = &["p55c"];
/// Those of the family with MMX, and that with SSE of which there are figures.
const P6_MMX: &[&str] = &["pii", "p6", "pm"];
const P6_SSE: &[&str] = &["p6"];

fn nothing(_: &mut Guest) -> Result {
    Ok(())
}

/// EDX:EAX = 0:7, ECX = 1: a quotient is the dividend, and the remainder 0.
fn by_one(g: &mut Guest) -> Result {
    g.mov(eax, 7)?;
    g.xor(edx, edx)?;
    g.mov(ecx, 1)
}

/// Ones on the stack of the x87 unit, with 64 bits of precision.
fn ones(g: &mut Guest) -> Result {
    g.fninit()?;
    (0..6).try_for_each(|_| g.fld1())
}

/// An address, where there are zeros.
fn zeros(g: &mut Guest) -> Result {
    g.mov(esi, SCRATCH)?;
    g.mov(dword_ptr(esi), 0)?;
    g.xor(eax, eax)
}

/// The same address in EBX.
fn based(g: &mut Guest) -> Result {
    zeros(g)?;
    g.mov(ebx, esi)
}

fn media(g: &mut Guest) -> Result {
    g.fninit()?;
    g.pxor(mm0, mm0)
}

fn floats(g: &mut Guest) -> Result {
    g.mov(esi, SCRATCH)?;
    (0..4).try_for_each(|n| g.mov(dword_ptr(esi + 4 * n), 0x3F80_0000))?;
    g.movups(xmm0, iced_x86::code_asm::xmmword_ptr(esi))?;
    g.movups(xmm1, iced_x86::code_asm::xmmword_ptr(esi))
}

fn doubles(g: &mut Guest) -> Result {
    g.mov(esi, SCRATCH)?;
    for n in 0..2 {
        g.mov(dword_ptr(esi + 8 * n), 0)?;
        g.mov(dword_ptr(esi + 8 * n + 4), 0x3FF0_0000)?;
    }
    g.movupd(xmm0, iced_x86::code_asm::xmmword_ptr(esi))?;
    g.movupd(xmm1, iced_x86::code_asm::xmmword_ptr(esi))
}

macro_rules! rows {
    ($($name:literal, $setting:ident, $setup:ident, $one:expr, [$($figure:expr),* $(,)?];)*) => {
        pub(super) const ROWS: &[Row] = &[$(Row {
            name: $name,
            setting: Setting::$setting,
            setup: $setup,
            one: $one,
            figures: &[$($figure),*],
        }),*];
    };
}

rows! {
    "ADD r32, r32, in a chain", Any, nothing, |g, _| g.add(eax, eax), [
        says(AMD, 1.0, "OG8 pages 273 to 300"), says(P6, 1.0, "GP6"), says(P55C, 1.0, "B86"),
    ];
    "SHL r32, imm, in a chain", Any, nothing, |g, _| g.shl(eax, 1), [
        says(AMD, 1.0, "GK"), says(P6, 1.0, "GP6"), says(P55C, 1.0, "B86"),
    ];
    "SHL r32, CL, in a chain", Any, nothing, |g, _| g.shl(eax, cl), [
        says(AMD, 1.0, "GK"), says(P55C, 4.0, "M. Abrash, Graphics Programming Black Book"),
    ];
    "IMUL r32, r32, in a chain", Any, nothing, |g, _| g.imul_2(eax, eax), [
        says(K8, 3.0, "GK"), says(K7, 5.0, "GK"), says(P6, 4.0, "Fog 29.1"), says(P55C, 10.0, "B86"),
    ];
    "IMUL r32, r32, imm, apart", Any, nothing, |g, n| match n % 3 {
        0 => g.imul_3(eax, esi, 3),
        1 => g.imul_3(ebx, esi, 3),
        _ => g.imul_3(ecx, esi, 3),
    }, [says(P6, 1.0, "Fog 29.1")];
    "DIV r32, in a chain", Any, by_one, |g, _| g.div(ecx), [
        says(AMD, 42.0, "GC"), says(P6, 39.0, "Fog 29.1"), says(P55C, 41.0, "B86"),
    ];
    "DIV r8, in a chain", Any, by_one, |g, _| g.div(cl), [
        says(AMD, 18.0, "GC"), says(P6, 19.0, "Fog 29.1"), says(P55C, 17.0, "B86"),
    ];
    "DIV r16, in a chain", Any, by_one, |g, _| g.div(cx), [
        says(AMD, 26.0, "GC"), says(P6, 23.0, "Fog 29.1"),
    ];
    "IDIV r32, in a chain", Any, by_one, |g, _| g.idiv(ecx), [
        says(AMD, 42.0, "GC"), says(P6, 39.0, "Fog 29.1"), says(P55C, 46.0, "B86"),
    ];
    "BSF r32, r32, in a chain", Any, by_one, |g, _| g.bsf(eax, eax), [says(K8, 8.0, "OG8 page 275")];
    "BSR r32, r32, in a chain", Any, by_one, |g, _| g.bsr(eax, eax), [says(K8, 11.0, "OG8 page 275")];
    "BSWAP r32, in a chain", Any, nothing, |g, _| g.bswap(eax), [
        says(K8, 1.0, "OG8 page 275"), says(P55C, 1.0, "B86"),
    ];
    "LEA r32, [r32 + r32 * 2 + 4], in a chain", Any, nothing, |g, _| g.lea(eax, dword_ptr(eax + eax * 2 + 4)), [
        says(AMD, 2.0, "GK; OG8 note 4 on page 275"), says(P6, 1.0, "GP6"),
        says(P55C, 2.0, "B86, and one that an address of the result before waits: Fog 9"),
    ];
    "ADD r32, [r32], of which the address is the result before", Any, zeros,
        |g, _| g.add(eax, dword_ptr(eax + SCRATCH)), [
        says(AMD, 4.0, "OG8 appendix C"), says(P6, 4.0, "GP6: a load takes 3, and the addition 1"),
        says(P55C, 3.0, "B86, and one that the address waits: Fog 9"),
    ];
    "ADD [mem], r32, of one place, in a chain", Any, zeros, |g, _| g.add(dword_ptr(esi), ecx), [
        says(P55C, 3.0, "M. Abrash, Graphics Programming Black Book, chapter 20"),
    ];
    "MOV r32, r32, apart", Any, nothing, |g, n| if n % 2 == 0 { g.mov(eax, esi) } else { g.mov(ebx, esi) }, [
        says(AMD, 1.0 / 3.0, "three a cycle: OG8 A.8"),
        says(P6, 0.5, "two ports: Fog 29.1"),
        says(P55C, 0.5, "they pair: Fog 10.1"),
    ];
    "MOV r32, imm to one register", Any, nothing, |g, _| g.mov(eax, 1), [
        says(P55C, 1.0, "no pair: Fog 10.1"),
    ];
    "MOV r32, [mem], apart, of two banks", Any, zeros, |g, n| match n % 2 {
        0 => g.mov(eax, dword_ptr(esi)),
        _ => g.mov(ebx, dword_ptr(esi + 8)),
    }, [
        says(AMD, 0.5, "two a cycle: OG8 pages 114 and 115"),
        says(P6, 1.0, "one port: Fog 29.1"),
        says(P55C, 0.5, "they pair: Fog 10.2"),
    ];
    "SHR r32, 1 and INC r32", Any, nothing, |g, n| if n % 2 == 0 { g.shr(eax, 1) } else { g.inc(ebx) }, [
        says(P55C, 0.5, "they pair: Fog 10.1"),
    ];
    "CMP r32, r32 and Jcc that falls through", Any, nothing, |g, n| if n % 2 == 0 {
        g.cmp(esi, esi)
    } else {
        let mut next = g.create_label();
        g.jne(next)?;
        g.place(&mut next)
    }, [says(P55C, 0.5, "they pair: Fog 10.1")];
    "PUSH r32 twice and POP r32 twice", Any, nothing, |g, n| match n % 4 {
        0 => g.push(eax),
        1 => g.push(ebx),
        2 => g.pop(ebx),
        _ => g.pop(eax),
    }, [says(P55C, 0.5, "PUSH and PUSH pair, and POP and POP: Fog 9 and 10.1")];
    "MOV r32, [mem] twice, 32,000 bytes apart", Any, zeros, |g, n| match n % 2 {
        0 => g.mov(eax, dword_ptr(esi)),
        _ => g.mov(ebx, dword_ptr(esi + 32_000)),
    }, [says(P55C, 1.0, "one bank: Fog 10.2")];
    "MOV r32, [mem] twice, 32,004 bytes apart", Any, zeros, |g, n| match n % 2 {
        0 => g.mov(eax, dword_ptr(esi)),
        _ => g.mov(ebx, dword_ptr(esi + 32_004)),
    }, [says(P55C, 0.5, "two banks: Fog 10.2")];
    "ADD r32, imm and MOV r32, [r32] of the sum", Any, zeros, |g, n| match n % 2 {
        0 => g.add(esi, 0),
        _ => g.mov(eax, dword_ptr(esi)),
    }, [says(P55C, 1.0, "MOV and the next ADD pair, and a cycle until the address is there: Fog 9")];
    "ADD ESP, imm and POP r32", Any, nothing, |g, n| match n % 2 {
        0 => g.add(esp, -4),
        _ => g.pop(eax),
    }, [says(P55C, 1.5, "no pair, and a cycle until the address is there: Fog 9")];
    "four instructions of two pairs, the second with an address that the first computes", Any, zeros,
        |g, n| match n % 4 {
            0 => g.mov(ebx, esi),
            1 => g.mov(ecx, 1),
            2 => g.mov(eax, dword_ptr(ebx)),
            _ => g.inc(edx),
        }, [says(P55C, 0.75, "3 cycles: Abrash, Graphics Programming Black Book, chapter 19")];
    "the same in another order", Any, based, |g, n| match n % 4 {
        0 => g.mov(eax, dword_ptr(ebx)),
        1 => g.mov(ebx, esi),
        2 => g.mov(ecx, 1),
        _ => g.inc(edx),
    }, [says(P55C, 0.5, "2 cycles: Abrash, Graphics Programming Black Book, chapter 19")];
    "two ADD [mem], r32, each as MOV, ADD and MOV, one among the other", Any, zeros, |g, n| match n % 6 {
        0 => g.mov(eax, dword_ptr(esi)),
        1 => g.mov(ebx, dword_ptr(esi + 4)),
        2 => g.add(eax, ecx),
        3 => g.add(ebx, ecx),
        4 => g.mov(dword_ptr(esi), eax),
        _ => g.mov(dword_ptr(esi + 4), ebx),
    }, [says(P55C, 0.5, "1.5 cycles an addition: Abrash, Graphics Programming Black Book, chapter 20")];
    "JMP to the next instruction", Any, nothing, |g, _| {
        let mut next = g.create_label();
        g.jmp(next)?;
        g.place(&mut next)
    }, [says(P6, 2.0, "a jump each second cycle: Fog 29.1")];
    "FADD, in a chain", Any, ones, |g, _| g.fadd_2(st0, st1), [
        says(AMD, 4.0, "OG8 page 307, GK"), says(P6, 3.0, "GP6"), says(P55C, 3.0, "Fog 28.2"),
    ];
    "FADD, apart", Any, ones, |g, n| match n % 4 {
        0 => g.fadd_2(st1, st0),
        1 => g.fadd_2(st2, st0),
        2 => g.fadd_2(st3, st0),
        _ => g.fadd_2(st4, st0),
    }, [says(AMD, 1.0, "GK"), says(P6, 1.0, "GP6"), says(P55C, 1.0, "Fog 28.2")];
    "FMUL, in a chain", Any, ones, |g, _| g.fmul_2(st0, st1), [
        says(AMD, 4.0, "GK"), says(P6, 5.0, "GP6"), says(P55C, 3.0, "Fog 28.2"),
    ];
    "FMUL, apart", Any, ones, |g, n| match n % 4 {
        0 => g.fmul_2(st1, st0),
        1 => g.fmul_2(st2, st0),
        2 => g.fmul_2(st3, st0),
        _ => g.fmul_2(st4, st0),
    }, [says(AMD, 1.0, "GK"), says(P6, 2.0, "GP6"), says(P55C, 2.0, "Fog 28.2")];
    "FDIV of 64 bits, in a chain", Any, ones, |g, _| g.fdiv_2(st0, st1), [
        says(K7, 24.0, "GC"), says(P6, 38.0, "Fog 29, note h"), says(P55C, 39.0, "Fog 28.2"),
    ];
    "FSQRT, in a chain", Any, ones, |g, _| g.fsqrt(), [
        says(AMD, 35.0, "GC"), says(P55C, 70.0, "Fog 28.2"),
    ];
    "FCHS, in a chain", Any, ones, |g, _| g.fchs(), [
        says(AMD, 2.0, "OG8 page 307, GK"), says(P6, 1.0, "GP6"), says(P55C, 1.0, "Fog 28.2"),
    ];
    "PADDD, in a chain", Any, media, |g, _| g.paddd(mm0, mm0), [
        says(AMD, 2.0, "GK"), says(P6_MMX, 1.0, "GP6"), says(P55C, 1.0, "Intel's pairing rules, after AviSynth's"),
    ];
    "PMULLW, in a chain", Any, media, |g, _| g.pmullw(mm0, mm0), [
        says(AMD, 3.0, "GK"), says(P6_MMX, 3.0, "GP6"), says(P55C, 3.0, "Intel's pairing rules, after AviSynth's"),
    ];
    "PMULLW, apart", Any, media, |g, n| match n % 4 {
        0 => g.pmullw(mm1, mm0),
        1 => g.pmullw(mm2, mm0),
        2 => g.pmullw(mm3, mm0),
        _ => g.pmullw(mm4, mm0),
    }, [says(P6_MMX, 1.0, "GP6"), says(P55C, 1.0, "Intel's pairing rules, after AviSynth's: not two together")];
    "ADDSS, in a chain", Sse, floats, |g, _| g.addss(xmm0, xmm1), [
        says(K8, 4.0, "GK"), says(P6_SSE, 3.0, "GP6"),
    ];
    "MULSS, in a chain", Sse, floats, |g, _| g.mulss(xmm0, xmm1), [
        says(K8, 4.0, "GK"), says(P6_SSE, 4.0, "GP6"),
    ];
    "DIVSS, in a chain", Sse, floats, |g, _| g.divss(xmm0, xmm1), [
        says(K8, 16.0, "GC"), says(P6_SSE, 18.0, "GP6"),
    ];
    "SQRTSS, in a chain", Sse, floats, |g, _| g.sqrtss(xmm0, xmm0), [
        says(K8, 19.0, "GC"), says(P6_SSE, 31.0, "GC"),
    ];
    "ADDPS, in a chain", Sse, floats, |g, _| g.addps(xmm0, xmm1), [says(K8, 5.0, "GK")];
    "MULPS, in a chain", Sse, floats, |g, _| g.mulps(xmm0, xmm1), [
        says(K8, 5.0, "GK"), says(P6_SSE, 5.0, "GP6"),
    ];
    "DIVPS, in a chain", Sse, floats, |g, _| g.divps(xmm0, xmm1), [
        says(K8, 39.0, "GC"), says(P6_SSE, 48.0, "GP6"),
    ];
    "ANDPS, in a chain", Sse, floats, |g, _| g.andps(xmm0, xmm1), [
        says(K8, 3.0, "GK"), says(P6_SSE, 2.0, "GP6"),
    ];
    "ADDSD, in a chain", Sse, doubles, |g, _| g.addsd(xmm0, xmm1), [says(K8, 4.0, "GK")];
    "MULSD, in a chain", Sse, doubles, |g, _| g.mulsd(xmm0, xmm1), [says(K8, 4.0, "GK")];
    "DIVSD, in a chain", Sse, doubles, |g, _| g.divsd(xmm0, xmm1), [says(K8, 20.0, "GC")];
    "SQRTSD, in a chain", Sse, doubles, |g, _| g.sqrtsd(xmm0, xmm0), [says(K8, 27.0, "GC")];
    "ADDPD, in a chain", Sse, doubles, |g, _| g.addpd(xmm0, xmm1), [says(K8, 5.0, "GK")];
}
