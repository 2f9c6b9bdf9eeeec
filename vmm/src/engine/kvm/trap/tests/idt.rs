//! Where the handlers are, if there are any.

use iced_x86::code_asm::*;

use super::*;

/// After LIDT and an exit the breakpoints are on the new handlers.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_guest_that_moves_its_interrupt_table() {
    let mut guest = Guest::long();
    for vector in 0..32 {
        guest.set_gate(OTHER_IDT, vector, 0x8e, 0);
    }
    // The new #GP handler is that of vector 20, whose handler drops no error code.
    let gate = guest.quad(OTHER_IDT + 16 * 20);
    guest.gate(OTHER_IDT, vector::GP, 16, gate);
    guest.load(HANDLERS + 64 * 20, 64, |a| {
        a.inc(dword_ptr(COUNTS as u32 + 8 * 20)).unwrap();
        a.add(rsp, 8).unwrap();
        a.add(qword_ptr(rsp), 2).unwrap();
        a.iretq().unwrap();
    });
    guest.write(0x700, &[0x1ff_u64.to_le_bytes(), OTHER_IDT.to_le_bytes()].concat());
    guest.write(0x702, &OTHER_IDT.to_le_bytes());
    guest.load(CODE, 64, |a| {
        a.xor(ecx, ecx).unwrap();
        a.rdpmc().unwrap();
        a.lidt(ptr(0x700)).unwrap();
        a.out(0x80, al).unwrap();
        three_rdpmc(a);
        a.hlt().unwrap();
    });
    guest.run();
    three_rdpmc_are_right(&guest);
    assert_eq!((guest.count(vector::GP), guest.count(20)), (0, 1));
}

/// Without an interrupt table every exception is a triple fault, which KVM reports. One that is not
/// deserved is none; of the two that are not executed here, UD2 ends the guest. With SVM beneath, KVM
/// has forgotten where the guest was: it resets a processor that shuts down.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
#[cfg_attr(all(host_kvm, host_svm), ignore = "KVM had SVM when this was built")]
fn a_guest_without_handlers() {
    for mut guest in [Guest::long(), Guest::protected()] {
        let bits = if guest.cpu.efer() == 0 { 32 } else { 64 };
        guest.cpu.idtr = DescriptorTable { base: 0, limit: 0 };
        guest.load(CODE, bits, |a| {
            a.xor(ecx, ecx).unwrap();
            a.rdpmc().unwrap();
            a.mov(ecx, 1).unwrap();
            a.rdpmc().unwrap();
            a.inc(esi).unwrap();
            a.ud2().unwrap();
            a.inc(esi).unwrap();
            a.hlt().unwrap();
        });
        guest.cpu.set_gpr(6, 0);
        guest.run();
        assert_eq!((guest.shutdowns, guest.pair(), guest.cpu.gpr(6)), (3, COUNTER, 1));
    }
}
