//! The pipes of `vpmu exec`, by the table of ports in its module.

use super::*;
use crate::devices::pipes::Part;

fn with_pipes() -> Chipset {
    Chipset::new(ChipsetConfig { pipes: true, ..config(CLOCK_HZ, START) })
}

/// Seven bytes are read as four, two and one, the lowest first; what is behind them reads as zero.
#[test]
fn an_answer_is_read_in_any_width() {
    let mut chipset = with_pipes();
    assert_eq!(chipset.io_read(0x2104, 4, 0), 0);
    chipset.io_write(0x2104, 4, 0, 1000);
    assert_eq!(chipset.io_read(0x2104, 4, 1001), 0xFFFF_FFFF);
    let pipes = chipset.pipes.as_mut().unwrap();
    assert_eq!(pipes.asked(), Some(1000));
    pipes.answer(vec![1, 2, 3, 4, 5, 0xFF, 7]);
    assert_eq!(pipes.asked(), None);
    assert_eq!(chipset.io_read(0x2104, 4, 1002), 7);
    assert_eq!(chipset.io_read(0x2100, 4, 1003), 0x0403_0201);
    assert_eq!(chipset.io_read(0x2104, 4, 1004), 3);
    assert_eq!(chipset.io_read(0x2100, 2, 1005), 0xFF05);
    assert_eq!(chipset.io_read(0x2100, 4, 1006), 7);
    assert_eq!(chipset.io_read(0x2104, 4, 1007), 0);
    assert_eq!(chipset.io_read(0x2100, 1, 1008), 0);
}

/// What is written to one comes out of that one, in order.
#[test]
fn output_and_error_are_apart() {
    let mut chipset = with_pipes();
    for (port, size, value) in
        [(0x2108, 4, 0x0403_0201), (0x210C, 1, 0xAB), (0x2108, 2, 0xFFFF_0005), (0x2108, 1, 6)]
    {
        chipset.io_write(port, size, value, 0);
    }
    assert!(chipset.has_output());
    let pipes = chipset.pipes.as_mut().unwrap();
    assert_eq!(pipes.take_output(), (vec![1, 2, 3, 4, 5, 0, 6], vec![0xAB]));
    assert!(!chipset.has_output());
}

/// Two files, the second empty, and one that is not there.
#[test]
fn files_come_behind_each_other() {
    let mut chipset = with_pipes();
    for (port, size, value) in
        [(0x2110, 4, 0x0403_0201), (0x2110, 1, 5), (0x2114, 4, 1), (0x2114, 4, 1), (0x2114, 4, 0)]
    {
        chipset.io_write(port, size, value, 0);
    }
    assert!(chipset.has_output());
    let (whole, missing) = (Part::End { whole: true }, Part::End { whole: false });
    let expected = [Part::Bytes(vec![1, 2, 3, 4, 5]), whole.clone(), whole, missing];
    assert_eq!(chipset.pipes.as_mut().unwrap().take_files(), expected);
    assert!(!chipset.has_output());
    // The next port is nobody's.
    chipset.io_write(0x2118, 1, 1, 0);
    assert!(!chipset.has_output());
}

/// No other machine has them: their ports are nobody's.
#[test]
fn a_board_without_them() {
    let mut chipset = chipset();
    chipset.io_write(0x2104, 4, 0, 0);
    chipset.io_write(0x2108, 1, 1, 0);
    assert_eq!(chipset.io_read(0x2104, 4, 0), 0xFFFF_FFFF);
    assert_eq!(chipset.io_read(0x2100, 1, 0), 0xFF);
    assert!(!chipset.has_output());
}
