//! The documented MVEX instructions.

use crate::{
    arithmetic::{Extreme, Signs},
    catalogue::{Element, Form, Logic, Row, Shift, Span, Ternary, Test, What, WithCarry},
};

const NONE: u8 = 0;
const P66: u8 = 1;
const F3: u8 = 2;
const F2: u8 = 3;

/// An instruction with an operand of its own width, all conversions of its type and all swizzles.
fn row(
    name: &str,
    map: u8,
    prefix: u8,
    opcode: u8,
    form: Form,
    element: Element,
    what: What,
) -> Row {
    let mut memory = match element {
        Element::F32 => 0xff,
        Element::I32 => 0xf7,
        Element::F64 | Element::I64 => 7,
    };
    // Only an operand of arithmetic is broadcast by its conversion.
    let is_source =
        matches!(form, Form::Unary | Form::Binary | Form::Shift | Form::ToMask | Form::Carry);
    if matches!(what, What::Move) || !is_source {
        memory &= !6;
    }
    Row {
        name: name.into(),
        map,
        prefix,
        w: Some(u8::from(element.size() == 8)),
        opcode,
        extension: None,
        e: None,
        form,
        element,
        span: Span::Full,
        memory,
        swizzles: 0xff,
        sae: false,
        rounding: false,
        immediate: false,
        what,
    }
}

/// The same of both floating-point types. In map 0F prefix 66 makes it double.
fn both(name: &str, map: u8, opcode: u8, form: Form, what: What) -> [Row; 2] {
    let single = if map == 1 { NONE } else { P66 };
    [
        row(&format!("{name}ps"), map, single, opcode, form, Element::F32, what),
        row(&format!("{name}pd"), map, P66, opcode, form, Element::F64, what),
    ]
}

/// All documented MVEX instructions.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    moves(&mut rows);
    streams(&mut rows);
    floats(&mut rows);
    conversions(&mut rows);
    integers(&mut rows);
    shuffles(&mut rows);
    prefetches(&mut rows);
    rows
}

fn moves(rows: &mut Vec<Row>) {
    use Element::{F32, F64, I32, I64};
    use Form::{Binary, Load, Store, Unary};
    for (name, prefix, load, store, element) in [
        ("vmovaps", NONE, 0x28, 0x29, F32),
        ("vmovapd", P66, 0x28, 0x29, F64),
        ("vmovdqa32", P66, 0x6f, 0x7f, I32),
        ("vmovdqa64", P66, 0x6f, 0x7f, I64),
    ] {
        rows.push(row(name, 1, prefix, load, Unary, element, What::Move));
        rows.push(row(name, 1, prefix, store, Store, element, What::Move));
    }
    for (e, hint) in [(false, "nr"), (true, "nrngo")] {
        for (suffix, prefix, element) in [("aps", F2, F32), ("apd", F3, F64)] {
            let name = format!("vmov{hint}{suffix}");
            let store = row(&name, 1, prefix, 0x29, Store, element, What::Move);
            rows.push(Row { e: Some(e), ..store });
        }
    }
    for (name, opcode, element, span) in [
        ("vbroadcastss", 0x18, F32, Span::One),
        ("vbroadcastsd", 0x19, F64, Span::One),
        ("vbroadcastf32x4", 0x1a, F32, Span::Quad),
        ("vbroadcastf64x4", 0x1b, F64, Span::Quad),
        ("vpbroadcastd", 0x58, I32, Span::One),
        ("vpbroadcastq", 0x59, I64, Span::One),
        ("vbroadcasti32x4", 0x5a, I32, Span::Quad),
        ("vbroadcasti64x4", 0x5b, I64, Span::Quad),
    ] {
        rows.push(row(name, 2, P66, opcode, Load, element, What::Move).span(span));
    }
    for (name, opcode, element) in [
        ("vpblendmd", 0x64, I32),
        ("vpblendmq", 0x64, I64),
        ("vblendmps", 0x65, F32),
        ("vblendmpd", 0x65, F64),
    ] {
        rows.push(row(name, 2, P66, opcode, Binary, element, What::Blend));
    }
}

fn streams(rows: &mut Vec<Row>) {
    use Element::{F32, F64, I32, I64};
    let types = [("d", 0, I32), ("q", 0, I64), ("ps", 1, F32), ("pd", 1, F64)];
    for (half, high, opcode) in [("l", false, 0xd0), ("h", true, 0xd4)] {
        for (suffix, float, element) in types {
            let load = format!("vloadunpack{half}{suffix}");
            let store = format!("vpackstore{half}{suffix}");
            let (unpack, pack) = (What::Unpack { high }, What::Pack { high });
            let opcode = opcode + float;
            rows.push(row(&load, 2, NONE, opcode, Form::Load, element, unpack).span(Span::One));
            rows.push(row(&store, 2, P66, opcode, Form::Store, element, pack).span(Span::One));
        }
    }
    for (p, suffix, float, element) in
        [("p", "dd", 0, I32), ("p", "dq", 0, I64), ("", "dps", 2, F32), ("", "dpd", 2, F64)]
    {
        let gather = format!("v{p}gather{suffix}");
        let scatter = format!("v{p}scatter{suffix}");
        for (name, opcode, form, what) in [
            (gather, 0x90, Form::Gather, What::Gather),
            (scatter, 0xa0, Form::Scatter, What::Scatter),
        ] {
            rows.push(row(&name, 2, P66, opcode + float, form, element, what).span(Span::One));
        }
    }
}

fn floats(rows: &mut Vec<Row>) {
    use Element::{F32, I32, I64};
    use Form::{Binary, ToMask, Unary};
    for (name, map, opcode, what) in [
        ("vadd", 1, 0x58, What::Add),
        ("vmul", 1, 0x59, What::Multiply),
        ("vsub", 1, 0x5c, What::Subtract),
        ("vaddn", 2, 0x50, What::AddNegated),
        ("vsubr", 2, 0x6d, What::SubtractReversed),
    ] {
        rows.extend(both(name, map, opcode, Binary, what).map(Row::rounding));
    }
    for (order, base) in [(132, 0x98), (213, 0xa8), (231, 0xb8)] {
        for (n, (name, product, addend)) in (0u8..).zip([
            ("m", false, false),
            ("m", false, true),
            ("nm", true, false),
            ("nm", true, true),
        ]) {
            let kind = if addend { "sub" } else { "add" };
            let what = What::Fused(order, Signs { product, addend });
            let name = format!("vf{name}{kind}{order}");
            rows.extend(both(&name, 2, base + 2 * n, Binary, what).map(Row::rounding));
        }
    }
    let fused233 = row("vfmadd233ps", 2, P66, 0xa4, Binary, F32, What::Fused233).rounding();
    rows.push(Row { memory: 5, swizzles: 1, ..fused233 });
    rows.push(row("vaddsetsps", 2, P66, 0xcc, Binary, F32, What::AddSetSign).rounding());
    rows.extend(both("vgmin", 2, 0x52, Binary, What::Extreme(Extreme::Least)).map(Row::sae));
    rows.extend(both("vgmax", 2, 0x53, Binary, What::Extreme(Extreme::Greatest)).map(Row::sae));
    let magnitude = What::Extreme(Extreme::GreatestMagnitude);
    rows.push(row("vgmaxabsps", 2, P66, 0x51, Binary, F32, magnitude).sae());
    rows.extend(both("vgetexp", 2, 0x42, Unary, What::Exponent).map(Row::sae));
    rows.extend(both("vgetmant", 3, 0x26, Unary, What::Mantissa).map(|r| r.sae().immediate()));
    rows.push(row("vfixupnanps", 2, P66, 0x55, Binary, I32, What::FixUp).sae());
    rows.push(row("vfixupnanpd", 2, P66, 0x55, Binary, I64, What::FixUp).sae());
    rows.push(row("vscaleps", 2, P66, 0x84, Binary, I32, What::Scale).rounding());
    rows.extend(
        both("vrndfxpnt", 3, 0x52, Unary, What::RoundFixed).map(|r| r.rounding().immediate()),
    );
    rows.extend(both("vcmp", 1, 0xc2, ToMask, What::FloatCompare).map(|r| r.sae().immediate()));
    for (name, opcode, element, what) in [
        ("vexp223ps", 0xc8, I32, What::Exp2),
        ("vlog2ps", 0xc9, F32, What::Log2),
        ("vrcp23ps", 0xca, F32, What::Reciprocal),
        ("vrsqrt23ps", 0xcb, F32, What::ReciprocalRoot),
    ] {
        rows.push(row(name, 2, P66, opcode, Unary, element, what).sae().plain());
    }
}

fn conversions(rows: &mut Vec<Row>) {
    use Element::{F32, F64, I32};
    use Form::Unary;
    // Half a vector is converted to doubles.
    let half = |row: Row| Row { span: Span::Half, memory: 7, ..row };
    rows.push(half(row("vcvtps2pd", 1, NONE, 0x5a, Unary, F32, What::Widen).sae()));
    rows.push(row("vcvtpd2ps", 1, P66, 0x5a, Unary, F64, What::Narrow).rounding());
    for (name, prefix, opcode, signed) in
        [("vcvtdq2pd", F3, 0xe6, true), ("vcvtudq2pd", F3, 0x7a, false)]
    {
        rows.push(half(row(name, 1, prefix, opcode, Unary, I32, What::IntegerToDouble { signed })));
    }
    for (name, prefix, opcode, element, what) in [
        ("vcvtfxpntps2dq", P66, 0xcb, F32, What::SingleToInteger { signed: true }),
        ("vcvtfxpntps2udq", P66, 0xca, F32, What::SingleToInteger { signed: false }),
        ("vcvtfxpntdq2ps", NONE, 0xcb, I32, What::IntegerToSingle { signed: true }),
        ("vcvtfxpntudq2ps", NONE, 0xca, I32, What::IntegerToSingle { signed: false }),
        ("vcvtfxpntpd2dq", F2, 0xe6, F64, What::DoubleToInteger { signed: true }),
        ("vcvtfxpntpd2udq", F2, 0xca, F64, What::DoubleToInteger { signed: false }),
    ] {
        rows.push(row(name, 3, prefix, opcode, Unary, element, what).rounding().immediate());
    }
}

fn integers(rows: &mut Vec<Row>) {
    use Element::{I32, I64};
    use Form::{Binary, Carry, ToMask};
    let arithmetic: [(&str, u8, u8, Ternary); 14] = [
        ("vpaddd", 1, 0xfe, |_, a, b| a.wrapping_add(b)),
        ("vpsubd", 1, 0xfa, |_, a, b| a.wrapping_sub(b)),
        ("vpsubrd", 2, 0x6c, |_, a, b| b.wrapping_sub(a)),
        ("vpmulld", 2, 0x40, |_, a, b| a.wrapping_mul(b)),
        ("vpmulhd", 2, 0x87, |_, a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
        ("vpmulhud", 2, 0x86, |_, a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        ("vpminsd", 2, 0x39, |_, a, b| (a as i32).min(b as i32) as u32),
        ("vpminud", 2, 0x3b, |_, a, b| a.min(b)),
        ("vpmaxsd", 2, 0x3d, |_, a, b| (a as i32).max(b as i32) as u32),
        ("vpmaxud", 2, 0x3f, |_, a, b| a.max(b)),
        ("vpmadd231d", 2, 0xb5, |d, a, b| a.wrapping_mul(b).wrapping_add(d)),
        ("vpsllvd", 2, 0x47, |_, a, b| if b > 31 { 0 } else { a << b }),
        ("vpsrlvd", 2, 0x45, |_, a, b| if b > 31 { 0 } else { a >> b }),
        ("vpsravd", 2, 0x46, |_, a, b| (a as i32 >> b.min(31)) as u32),
    ];
    for (name, map, opcode, f) in arithmetic {
        rows.push(row(name, map, P66, opcode, Binary, I32, What::Integer(f)));
    }
    let logic: [(&str, u8, Logic); 4] = [
        ("vpand", 0xdb, |a, b| a & b),
        ("vpandn", 0xdf, |a, b| !a & b),
        ("vpor", 0xeb, |a, b| a | b),
        ("vpxor", 0xef, |a, b| a ^ b),
    ];
    for (name, opcode, f) in logic {
        for (suffix, element) in [("d", I32), ("q", I64)] {
            rows.push(row(
                &format!("{name}{suffix}"),
                1,
                P66,
                opcode,
                Binary,
                element,
                What::Logic(f),
            ));
        }
    }
    let multiply = row("vpmadd233d", 2, P66, 0xb4, Binary, I32, What::MultiplyAdd233);
    rows.push(Row { memory: 5, swizzles: 1, ..multiply });
    rows.push(row("vpaddsetsd", 2, P66, 0xcd, Binary, I32, What::IntegerAddSetSign));
    let carries: [(&str, u8, WithCarry); 6] = [
        ("vpadcd", 0x5c, |d, b, c| narrow(i64::from(d) + i64::from(b) + i64::from(c))),
        ("vpaddsetcd", 0x5d, |d, b, _| narrow(i64::from(d) + i64::from(b))),
        ("vpsbbd", 0x5e, |d, b, c| narrow(i64::from(d) - i64::from(b) - i64::from(c))),
        ("vpsubsetbd", 0x5f, |d, b, _| narrow(i64::from(d) - i64::from(b))),
        ("vpsbbrd", 0x6e, |d, b, c| narrow(i64::from(b) - i64::from(d) - i64::from(c))),
        ("vpsubrsetbd", 0x6f, |d, b, _| narrow(i64::from(b) - i64::from(d))),
    ];
    for (name, opcode, f) in carries {
        rows.push(row(name, 2, P66, opcode, Carry, I32, What::Carry(f)));
    }
    let tests: [(&str, u8, u8, Test); 4] = [
        ("vpcmpeqd", 1, 0x76, |a, b| a == b),
        ("vpcmpgtd", 1, 0x66, |a, b| a as i32 > b as i32),
        ("vpcmpltd", 2, 0x74, |a, b| (a as i32) < b as i32),
        ("vptestmd", 2, 0x27, |a, b| a & b != 0),
    ];
    for (name, map, opcode, f) in tests {
        rows.push(row(name, map, P66, opcode, ToMask, I32, What::IntegerTest(f)));
    }
    for (name, opcode, signed) in [("vpcmpd", 0x1f, true), ("vpcmpud", 0x1e, false)] {
        let what = What::IntegerCompare { signed };
        rows.push(row(name, 3, P66, opcode, ToMask, I32, what).immediate());
    }
    let shifts: [(&str, u8, Shift); 3] = [
        ("vpsrld", 2, |b, count| if count > 31 { 0 } else { b >> count }),
        ("vpsrad", 4, |b, count| (b as i32 >> count.min(31)) as u32),
        ("vpslld", 6, |b, count| if count > 31 { 0 } else { b << count }),
    ];
    for (name, extension, f) in shifts {
        let shift = row(name, 1, P66, 0x72, Form::Shift, I32, What::ShiftImmediate(f));
        rows.push(shift.extension(extension).immediate());
    }
}

/// The low half, and whether there is more: a carry or a borrow.
fn narrow(wide: i64) -> (u32, bool) {
    (wide as u32, wide >> 32 != 0)
}

fn shuffles(rows: &mut Vec<Row>) {
    use Element::{F32, I32};
    use Form::{Binary, Unary};
    for (name, map, opcode, form, element, what) in [
        ("vpshufd", 1, 0x70, Unary, I32, What::ShuffleQuads),
        ("vpermf32x4", 3, 0x07, Unary, F32, What::PermuteQuads),
        ("valignd", 3, 0x03, Binary, I32, What::Align),
    ] {
        rows.push(row(name, map, P66, opcode, form, element, what).plain().immediate());
    }
    rows.push(row("vpermd", 2, P66, 0x36, Binary, I32, What::Permute).plain());
}

fn prefetches(rows: &mut Vec<Row>) {
    use Element::{F32, F64, I32};
    let line = |name: &str, prefix, opcode, extension| Row {
        w: None,
        memory: 1,
        ..row(name, 1, prefix, opcode, Form::Line, I32, What::LinePrefetch)
            .span(Span::Line)
            .extension(extension)
    };
    let names = ["nta", "0", "1", "2", "enta", "e0", "e1", "e2"];
    for (n, suffix) in (0..).zip(names) {
        rows.push(line(&format!("vprefetch{suffix}"), NONE, 0x18, n));
    }
    rows.push(line("clevict1", F3, 0xae, 7));
    rows.push(line("clevict0", F2, 0xae, 7));
    for (name, element, extension, clears) in [
        ("vgatherpf0hintdps", F32, 0, false),
        ("vgatherpf0hintdpd", F64, 0, false),
        ("vgatherpf0dps", F32, 1, true),
        ("vgatherpf1dps", F32, 2, true),
        ("vscatterpf0hintdps", F32, 4, false),
        ("vscatterpf0hintdpd", F64, 4, false),
        ("vscatterpf0dps", F32, 5, true),
        ("vscatterpf1dps", F32, 6, true),
    ] {
        let what = What::IndexedPrefetch { clears };
        let prefetch = row(name, 2, P66, 0xc6, Form::IndexedPrefetch, element, what);
        rows.push(prefetch.span(Span::One).extension(extension));
    }
}
