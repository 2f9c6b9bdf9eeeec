//! A skid that is asked for: the PMI comes that many instructions behind the overflowing one.

use guest_tests::guest::{LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::{Guest, Options, Part, Result, run_with};

topics!(that_many_instructions_later);

fn that_many_instructions_later(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, part.instructions, OS | INT, 2_u64.wrapping_neg())?;
        g.nop()?; // 1
        g.nop()?; // 2: overflow
        for n in 0..8 {
            g.mark(&format!("skid {n}"))?;
            g.nop()?;
        }
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    for skid in [0, 1, 2, 5] {
        let outcome = run_with(part, &image, Options { skid, ..Options::default() });
        let expected = image.symbol(&format!("skid {skid}")).expect("a mark");
        assert_eq!(outcome.value("pmis"), 1);
        assert_eq!(outcome.value("pmis.0"), expected, "skid {skid}");
    }
    Ok(())
}
