//! Events that come between a fault and its handler.

use iced_x86::code_asm::*;
use kvm_bindings::kvm_vcpu_events;

use super::*;

/// An NMI that waits while RDPMC faults is taken, once, and RDPMC executes, once.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn an_nmi_in_between() {
    let mut guest = Guest::long();
    guest.load(CODE, 64, |a| {
        a.xor(ecx, ecx).unwrap();
        for _ in 0..4 {
            a.out(0x80, al).unwrap();
            a.rdpmc().unwrap();
            a.inc(r9).unwrap();
        }
        a.hlt().unwrap();
    });
    guest.cpu.set_gpr(9, 0);
    guest.run_with(|guest, exits| {
        // One before OUT, one at the stop for RDPMC, whichever comes at these exits.
        if matches!(exits, 1 | 4 | 6) {
            match run_page::events_to_come(&mut guest.vcpu) {
                Some(events) => events.nmi.pending = 1,
                None => guest.vcpu.nmi().unwrap(),
            }
        }
    });
    assert_eq!((guest.pair(), guest.cpu.gpr(9)), (COUNTER, 4));
    assert_eq!((guest.count(vector::NMI), guest.count(vector::GP)), (3, 0));
}

/// What KVM was in the middle of delivering when the state was taken is delivered by the software CPU:
/// an exception with its error code, an interrupt, an NMI. INT n is executed again, and so is what
/// raised #UD or #GP(0): they may be spurious.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_kvm_was_about_to_deliver() {
    type Set = fn(&mut kvm_vcpu_events);
    let cases: [(Set, Option<u8>); 7] = [
        (|e| (e.exception.injected, e.exception.nr) = (1, vector::DE), Some(vector::DE)),
        (|e| (e.exception.injected, e.exception.nr) = (1, vector::UD), None),
        (
            |e| {
                (e.exception.injected, e.exception.nr) = (1, vector::GP);
                (e.exception.has_error_code, e.exception.error_code) = (1, 0);
            },
            None,
        ),
        (
            |e| {
                (e.exception.injected, e.exception.nr) = (1, vector::GP);
                (e.exception.has_error_code, e.exception.error_code) = (1, 0x48);
            },
            Some(vector::GP),
        ),
        (|e| (e.interrupt.injected, e.interrupt.nr) = (1, 20), Some(20)),
        (|e| e.nmi.injected = 1, Some(vector::NMI)),
        (|e| (e.interrupt.injected, e.interrupt.nr, e.interrupt.soft) = (1, 20, 1), None),
    ];
    for (set, expected) in cases {
        let mut guest = Guest::long();
        let mut state = State::from_kvm(&mut guest.vcpu).unwrap();
        state.set_from_cpu(&guest.cpu);
        set(&mut state.events);
        state.to_kvm(&mut guest.vcpu).unwrap();
        let mut state = State::from_kvm(&mut guest.vcpu).unwrap();
        state.to_cpu(&mut guest.cpu);
        let mut context = Cx { bus: &mut guest.outside, ram: guest.memory.ram(), observer: Plain };
        state.deliver(&mut guest.cpu, &mut context).unwrap();
        let rip = expected.map_or(CODE, |vector| HANDLERS + 64 * u64::from(vector));
        assert_eq!(guest.cpu.rip, rip, "{expected:?}");
        assert_eq!(guest.cpu.nmi_blocked(), expected == Some(vector::NMI));
        let top = guest.quad(guest.cpu.gpr(4));
        match expected {
            Some(vector::GP) => assert_eq!(top, 0x48, "error code"),
            Some(_) => assert_eq!(top, CODE, "RIP"),
            None => {}
        }
        // Once is enough.
        let mut context = Cx { bus: &mut guest.outside, ram: guest.memory.ram(), observer: Plain };
        state.deliver(&mut guest.cpu, &mut context).unwrap();
        assert_eq!(guest.cpu.rip, rip);
    }
}
