//! What instructions are counted as when they retire.
//!
//! Classes are no part of a lowered instruction, for nothing asks for them while it executes: a block
//! has the sums of its instructions, and theirs apart for when only the first of them have retired.

/// The class of retired instruction that a counter can tell apart (K8 events 26h, 27h, CBh, 02h,
/// 24h, 4Bh; Pentium events 22h, 2Dh, 2Fh; P6 events B3h, C1h, D8h, D9h; Knights Corner event 16h). An instruction may belong to several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class(pub u32);

impl Class {
    /// No class beyond "an instruction".
    pub const NONE: Self = Self(0);
    /// CLFLUSH.
    pub const CLFLUSH: Self = Self(1 << 0);
    /// CPUID.
    pub const CPUID: Self = Self(1 << 1);
    /// An x87 instruction.
    pub const X87: Self = Self(1 << 2);
    /// An MMX or 3DNow! instruction.
    pub const MMX: Self = Self(1 << 3);
    /// A packed SSE, SSE2 or SSE3 instruction.
    pub const SSE_PACKED: Self = Self(1 << 4);
    /// A scalar SSE, SSE2 or SSE3 instruction.
    pub const SSE_SCALAR: Self = Self(1 << 5);
    /// A locked read-modify-write, explicit or implied (XCHG with memory).
    pub const LOCKED: Self = Self(1 << 6);
    /// FCOMI, FUCOMI, COMISS, COMISD, UCOMISS, UCOMISD and the like.
    pub const FAST_FLAG: Self = Self(1 << 7);
    /// PREFETCH, PREFETCHT0/T1/T2.
    pub const PREFETCH_LOAD: Self = Self(1 << 8);
    /// PREFETCHW.
    pub const PREFETCH_STORE: Self = Self(1 << 9);
    /// PREFETCHNTA.
    pub const PREFETCH_NTA: Self = Self(1 << 10);
    /// A computational x87 instruction, whatever its operands: FADD, FSUB, FMUL, FDIV with their
    /// reversed, popping and integer forms; FSQRT, FPREM, FPREM1, FRNDINT, FSCALE, FXTRACT; FCOM,
    /// FUCOM, FICOM, FCOMI, FUCOMI with their popping forms, FTST; F2XM1, FYL2X, FYL2XP1, FPTAN,
    /// FPATAN, FSIN, FCOS, FSINCOS, each once.
    ///
    /// Those are the arithmetic instructions of Intel SDM volume 1, section 8.4.1, without loads,
    /// stores and conversions. The Pentium's manual names adds, subtracts, multiplies, divides,
    /// remainders, square roots and transcendentals (volume 3, Pentium event 22h), the P6's
    /// comparisons as well (P6 event 10h). FABS, FCHS and FXAM compute nothing.
    pub const X87_FLOP: Self = Self(1 << 11);
    /// EMMS; not FEMMS.
    pub const EMMS: Self = Self(1 << 12);
    /// A saturating instruction on MMX registers, whether or not a result is saturated: PADDS,
    /// PADDUS, PSUBS, PSUBUS, PACKSS, PACKUS.
    pub const MMX_SATURATING: Self = Self(1 << 13);
    /// A packed multiplication on MMX registers, PMADDWD included.
    pub const MMX_MULTIPLY: Self = Self(1 << 14);
    /// A packed shift on MMX registers.
    pub const MMX_SHIFT: Self = Self(1 << 15);
    /// PACKSS or PACKUS on MMX registers.
    pub const MMX_PACK: Self = Self(1 << 16);
    /// PUNPCKL or PUNPCKH on MMX registers.
    pub const MMX_UNPACK: Self = Self(1 << 17);
    /// PAND, PANDN, POR or PXOR on MMX registers.
    pub const MMX_LOGICAL: Self = Self(1 << 18);
    /// A packed addition or subtraction on MMX registers, PAVG and PSADBW included.
    pub const MMX_ARITHMETIC: Self = Self(1 << 19);
    /// Packed SSE arithmetic: addition, subtraction, multiplication, division, square root,
    /// reciprocals, minimum, maximum.
    pub const SSE_PACKED_ARITHMETIC: Self = Self(1 << 20);
    /// The same on scalars.
    pub const SSE_SCALAR_ARITHMETIC: Self = Self(1 << 21);
    /// An SSE or SSE2 instruction on packed single-precision numbers.
    pub const SSE_PACKED_SINGLE: Self = Self(1 << 22);
    /// One on scalar single-precision numbers.
    pub const SSE_SCALAR_SINGLE: Self = Self(1 << 23);
    /// One on packed double-precision numbers.
    pub const SSE_PACKED_DOUBLE: Self = Self(1 << 24);
    /// One on scalar double-precision numbers.
    pub const SSE_SCALAR_DOUBLE: Self = Self(1 << 25);
    /// Those of [`Self::SSE_PACKED_ARITHMETIC`] in single precision.
    pub const SSE_PACKED_SINGLE_ARITHMETIC: Self = Self(1 << 26);
    /// Those of [`Self::SSE_SCALAR_ARITHMETIC`] in single precision.
    pub const SSE_SCALAR_SINGLE_ARITHMETIC: Self = Self(1 << 27);
    /// Those of [`Self::SSE_PACKED_ARITHMETIC`] in double precision.
    pub const SSE_PACKED_DOUBLE_ARITHMETIC: Self = Self(1 << 28);
    /// Those of [`Self::SSE_SCALAR_ARITHMETIC`] in double precision.
    pub const SSE_SCALAR_DOUBLE_ARITHMETIC: Self = Self(1 << 29);
    /// An instruction of Knights Corner's vector unit, those on mask registers included. Prefetches and
    /// evictions of a line, JKZD, JKNZD, and the counts of bits in general registers are none.
    pub const VPU: Self = Self(1 << 30);
    /// Number of classes.
    pub const COUNT: usize = 31;

    /// Whether it has one of the classes of another set.
    pub(crate) const fn is_any_of(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of classes.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How many instructions of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCount {
    /// The number of the class: of its bit in [`Class`].
    pub class: u16,
    /// How many instructions.
    pub count: u16,
}

/// The classes of a block's instructions.
pub(crate) struct BlockClasses {
    sums: Box<[ClassCount]>,
    each: Box<[Class]>,
}

impl BlockClasses {
    /// Of a block whose instructions have these classes; `None` if none of them has one.
    pub(crate) fn new(each: Vec<Class>) -> Option<Box<Self>> {
        let sums: Box<[ClassCount]> = sums(&each).collect();
        if sums.is_empty() {
            return None;
        }
        Some(Box::new(Self { sums, each: each.into_boxed_slice() }))
    }

    /// The classes of instruction `n`, counted from 0; none if there is no such instruction.
    pub(crate) fn of(&self, n: usize) -> Class {
        self.each.get(n).copied().unwrap_or(Class::NONE)
    }

    /// How many of each class all its instructions are.
    #[inline(always)]
    pub(crate) fn sums(&self) -> &[ClassCount] {
        &self.sums
    }

    /// How many of each class its first `count` instructions are.
    #[cold]
    pub(crate) fn sums_of_first(&self, count: usize) -> Vec<ClassCount> {
        sums(&self.each[..count]).collect()
    }

    /// Goes through the classes of instruction `n`.
    #[inline]
    pub(crate) fn each(&self, n: usize, mut tell: impl FnMut(ClassCount)) {
        let Class(mut classes) = self.of(n);
        while classes != 0 {
            tell(ClassCount { class: classes.trailing_zeros() as u16, count: 1 });
            classes &= classes - 1;
        }
    }

    /// Host memory that it takes, in bytes.
    pub(crate) fn cost(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.sums) + size_of_val(&*self.each)
    }
}

/// How many of each class instructions of these classes are, without the classes that none has.
fn sums(each: &[Class]) -> impl Iterator<Item = ClassCount> {
    (0..Class::COUNT as u16).filter_map(|class| {
        let count = each.iter().filter(|classes| classes.0 >> class & 1 != 0).count() as u16;
        (count != 0).then_some(ClassCount { class, count })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUID (bit 1), nothing, FADD (bits 2 and 11), FLD (bit 2), nothing: by hand.
    #[test]
    fn sums_over_all_and_over_the_first() {
        let flop = Class::X87.with(Class::X87_FLOP);
        let each = vec![Class::CPUID, Class::NONE, flop, Class::X87, Class::NONE];
        let of = |rows: &[(u16, u16)]| -> Vec<ClassCount> {
            rows.iter().map(|&(class, count)| ClassCount { class, count }).collect()
        };
        let classes = BlockClasses::new(each).expect("some have classes");
        assert_eq!(classes.sums(), of(&[(1, 1), (2, 2), (11, 1)]));
        let firsts: [&[(u16, u16)]; 6] = [
            &[],
            &[(1, 1)],
            &[(1, 1)],
            &[(1, 1), (2, 1), (11, 1)],
            &[(1, 1), (2, 2), (11, 1)],
            &[(1, 1), (2, 2), (11, 1)],
        ];
        for (count, want) in firsts.into_iter().enumerate() {
            assert_eq!(classes.sums_of_first(count), of(want), "{count}");
        }
        assert!(BlockClasses::new(vec![Class::NONE; 3]).is_none());
    }
}
