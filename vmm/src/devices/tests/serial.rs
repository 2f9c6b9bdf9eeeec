use super::*;

const COM1: u16 = 0x3F8;

// The steps of Linux's 8250 autoconfig, each with the answer that makes it a 16550A.
#[test]
fn linux_finds_a_16550a() {
    let mut bench = Bench::new();
    // The interrupt enable register holds its low four bits.
    bench.outb(COM1 + 1, 0);
    bench.outb(0x80, 0xFF);
    assert_eq!(bench.inb(COM1 + 1) & 0xF, 0);
    bench.outb(COM1 + 1, 0x0F);
    assert_eq!(bench.inb(COM1 + 1) & 0xF, 0xF);
    bench.outb(COM1 + 1, 0);
    // Loopback with OUT2 and RTS: DCD and CTS.
    bench.outb(COM1 + 4, 0x1A);
    assert_eq!(bench.inb(COM1 + 6) & 0xF0, 0x90);
    bench.outb(COM1 + 4, 0);
    // Not a 16650: no enhanced feature register behind LCR = BFh.
    bench.outb(COM1 + 3, 0xBF);
    bench.outb(COM1 + 2, 0);
    bench.outb(COM1 + 3, 0);
    // FIFOs: both bits. No 64-byte FIFO.
    bench.outb(COM1 + 2, 0x01);
    assert_eq!(bench.inb(COM1 + 2) >> 6, 3);
    bench.outb(COM1 + 3, 0x80);
    assert_ne!(bench.inb(COM1 + 2), 0);
    bench.outb(COM1 + 2, 0x21);
    bench.outb(COM1 + 3, 0);
    assert_eq!(bench.inb(COM1 + 2) & 0xE0, 0xC0);
    // No UART unit enable bit in IER.
    bench.outb(COM1 + 1, 0x40);
    assert_eq!(bench.inb(COM1 + 1), 0);
    // Scratch.
    bench.outb(COM1 + 7, 0xA5);
    assert_eq!(bench.inb(COM1 + 7), 0xA5);
}

// Linux's THRE test: enabling the interrupt with an empty transmitter raises it every time.
#[test]
fn transmitter_empty_interrupt() {
    let mut bench = Bench::new();
    bench.outb(COM1 + 4, 0x08);
    for _ in 0..2 {
        bench.outb(COM1 + 1, 0x02);
        assert_eq!(bench.chipset.irq.acknowledge(0), 0x34);
        bench.outb(0x20, 0x20);
        assert_eq!(bench.inb(COM1 + 2), 0x02);
        assert_eq!(bench.inb(COM1 + 2), 0x01);
        // It is the enabling that raises it, not the write.
        bench.outb(COM1 + 1, 0x02);
        assert_eq!(bench.inb(COM1 + 2), 0x01);
        bench.outb(COM1 + 1, 0);
    }
    bench.outb(COM1 + 1, 0x02);
    assert_eq!(bench.inb(COM1 + 2), 0x02);
    bench.outb(COM1, b'x');
    assert_eq!(bench.inb(COM1 + 2), 0x02);
    assert_eq!(bench.inb(COM1 + 5), 0x60);
    assert_eq!(bench.chipset.serial.take_output(), b"x");
    assert!(!bench.chipset.serial.has_output());
}

// Received data: trigger level 8 (FCR 81h) gives 04h, less gives the time-out 0Ch; room is 16.
#[test]
fn receive_fifo() {
    let mut bench = Bench::new();
    bench.outb(COM1 + 4, 0x0B);
    bench.outb(COM1 + 2, 0x81);
    bench.outb(COM1 + 1, 0x05);
    assert_eq!(bench.chipset.push_input(b"0123456789abcdefgh"), 16);
    assert_eq!(bench.chipset.serial.input_room(), 0);
    assert_eq!(bench.chipset.irq.acknowledge(0), 0x34);
    bench.outb(0x20, 0x20);
    assert_eq!(bench.inb(COM1 + 2), 0xC4);
    for expected in b"012345678" {
        assert_eq!(bench.inb(COM1), *expected);
    }
    assert_eq!(bench.inb(COM1 + 2), 0xCC);
    assert_eq!(bench.inb(COM1 + 5) & 1, 1);
    for expected in b"9abcdef" {
        assert_eq!(bench.inb(COM1), *expected);
    }
    assert_eq!(bench.inb(COM1 + 2), 0xC1);
    assert_eq!(bench.inb(COM1 + 5), 0x60);
    assert!(!bench.chipset.irq.pending(0).interrupt);
}

// Without FIFO one byte has room; in loopback a second one overruns: LSR bit 1, cleared by the read.
#[test]
fn loopback_overrun() {
    let mut bench = Bench::new();
    assert_eq!(bench.chipset.push_input(b"ab"), 1);
    assert_eq!(bench.inb(COM1), b'a');
    bench.outb(COM1 + 4, 0x10);
    bench.outb(COM1, b'1');
    bench.outb(COM1, b'2');
    assert_eq!(bench.inb(COM1 + 5), 0x63);
    assert_eq!(bench.inb(COM1 + 5), 0x61);
    assert_eq!(bench.inb(COM1), b'2');
    assert_eq!(bench.chipset.serial.take_output(), b"");
}

// The divisor latch hides data and IER; OUT2 off keeps the line low.
#[test]
fn divisor_latch_and_out2() {
    let mut bench = Bench::new();
    bench.outb(COM1 + 3, 0x83);
    bench.outb(COM1, 1);
    bench.outb(COM1 + 1, 2);
    assert_eq!((bench.inb(COM1), bench.inb(COM1 + 1)), (1, 2));
    bench.outb(COM1 + 3, 0x03);
    assert_eq!(bench.inb(COM1 + 1), 0);
    bench.outb(COM1 + 1, 0x02);
    assert!(!bench.chipset.irq.pending(0).interrupt);
    bench.outb(COM1 + 4, 0x08);
    assert!(bench.chipset.irq.pending(0).interrupt);
}
