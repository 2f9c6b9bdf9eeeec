//! Bus and memory of the modelled processors, on a board of their time.
//!
//! The bus clock is that of the personality: its clock divided by the ratio here is what the local APIC's
//! timer divides, but for the ring of Knights Corner, which has the clock of its cores. Unless said
//! otherwise, times are in clocks of the bus.

use crate::bus::{
    BusGeometry, ClockRatio, DramGeometry, Interconnect, Northbridge, PipelinedBus, PointToPoint,
    SequentialBus,
};

/// Pentium with MMX technology, 200 MHz: 66 MHz bus, SDRAM.
pub static P55C: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 3, bus: 1 },
    line_bytes: 32,
    interconnect: Interconnect::Sequential(SequentialBus {
        memory: P55C_MEMORY,
        board: P55C_BOARD,
        write: P55C_WRITE,
        device: DEVICE_66,
        port: PORT_66,
        // A line of 32 bytes on a bus of 64 bits.
        burst_transfers: 4,
    }),
    dram: DramGeometry {
        page_bytes: 2 << 10,
        banks: SDRAM_BANKS,
        chip_select_bytes: 64 << 20,
        chip_selects: 4,
        open_pages: P55C_OPEN_PAGES,
        idle_limit: IDLE_LIMIT,
        burst_clocks: 4,
        cas_latency: SDRAM_66_LATENCY,
        write_latency: SDRAM_WRITE_LATENCY,
        ras_to_cas: SDRAM_66_LATENCY,
        precharge: SDRAM_66_LATENCY,
        ..SDRAM_TURNAROUNDS
    },
};

/// Pentium Pro, 200 MHz: 66 MHz bus, EDO DRAM.
pub static PPRO: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 3, bus: 1 },
    line_bytes: 32,
    interconnect: Interconnect::Pipelined(PipelinedBus {
        memory_command: PPRO_MEMORY_COMMAND,
        memory_return: PPRO_MEMORY_RETURN,
        device: DEVICE_66,
        port: PORT_66,
        ..P6_BUS
    }),
    dram: DramGeometry {
        // Intel 290633 (82443BX data sheet), section 4.3.2: "In systems with EDO memory, a fixed 2 KB
        // page size is used."
        page_bytes: 2 << 10,
        // An EDO chip has no banks: a row of chips is one.
        banks: 1,
        chip_select_bytes: 32 << 20,
        chip_selects: 8,
        open_pages: EDO_OPEN_PAGES,
        idle_limit: IDLE_LIMIT,
        // Infineon HYM64V8005GU-60, clocks of 15 ns: 25 ns from one transfer to the next (tHPC), 30 ns from
        // the column address to the data (tAA), 60 ns from the row address (tRAC).
        burst_clocks: 7,
        cas_latency: 2,
        write_latency: 2,
        ras_to_cas: 2,
        precharge: EDO_PRECHARGE,
        chip_select_turnaround: 0,
        read_to_write: 0,
        write_to_read: 0,
        ..SDRAM_TURNAROUNDS
    },
};

/// Pentium II, 400 MHz: 100 MHz bus, PC100 SDRAM, as behind an 82443BX.
pub static PII: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 4, bus: 1 },
    line_bytes: 32,
    interconnect: Interconnect::Pipelined(PipelinedBus {
        memory_command: PII_MEMORY_COMMAND,
        memory_return: PII_MEMORY_RETURN,
        device: DEVICE_100,
        port: PORT_100,
        ..P6_BUS
    }),
    dram: DramGeometry {
        ras_to_cas: PC100_ROW,
        precharge: PC100_ROW,
        cas_latency: PC100_CAS,
        ..SDRAM
    },
};

/// Pentium III, 1 GHz: 133 MHz bus, PC133 SDRAM.
pub static P6: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 15, bus: 2 },
    line_bytes: 32,
    interconnect: Interconnect::Pipelined(PipelinedBus {
        memory_command: P6_MEMORY_COMMAND,
        memory_return: P6_MEMORY_RETURN,
        device: DEVICE_133,
        port: PORT_133,
        ..P6_BUS
    }),
    dram: DramGeometry {
        ras_to_cas: PC133_LATENCY,
        precharge: PC133_LATENCY,
        cas_latency: PC133_LATENCY,
        ..SDRAM
    },
};

/// Pentium M, 1.6 GHz: 100 MHz bus with four transfers a clock, DDR-200, as behind an 82855PM (Intel
/// 252613, which has DDR 200 and 266).
pub static PM: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 16, bus: 1 },
    line_bytes: 64,
    interconnect: Interconnect::Pipelined(PipelinedBus {
        request_interval: PM_REQUEST_INTERVAL,
        memory_command: PM_MEMORY_COMMAND,
        memory_return: PM_MEMORY_RETURN,
        device: DEVICE_100,
        port: PORT_100,
        // Eight bytes four times a clock (Intel 855GM: "source synchronous quad pumped data").
        bytes_per_clock: 32,
        // Intel 855GM: "A 12-deep, In-Order queue".
        in_order_queue: 12,
        ..P6_BUS
    }),
    dram: DDR_200,
};

/// Athlon, 1 GHz: 100 MHz bus with two transfers a clock, DDR-200, as behind an AMD-761.
pub static K7: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 10, bus: 1 },
    line_bytes: 64,
    interconnect: Interconnect::PointToPoint(PointToPoint {
        command: K7_COMMAND,
        // Eight bytes twice a clock.
        bytes_per_clock: 16,
        memory_command: K7_MEMORY_COMMAND,
        memory_return: K7_MEMORY_RETURN,
        probe: K7_PROBE,
        supplies_clean: false,
        device: DEVICE_100,
        port: PORT_100,
    }),
    dram: DDR_200,
};

/// Opteron, 2 GHz: memory controller in the processor, two channels of DDR-400 as one of 128 bits.
pub static K8: BusGeometry = BusGeometry {
    // AMD BKDG 26094, event E3h: "the memory clock for DDR-400 [...] would be 200 MHz".
    clock: ClockRatio { processor: 10, bus: 1 },
    line_bytes: 64,
    interconnect: Interconnect::Northbridge(Northbridge {
        request: K8_PATH,
        response: K8_PATH,
        probe: K8_PROBE,
        device: K8_DEVICE,
        port: K8_PORT,
    }),
    dram: DramGeometry {
        // Two channels of modules with 1 KiB a row in each of eight chips.
        page_bytes: 16 << 10,
        banks: SDRAM_BANKS,
        chip_select_bytes: 512 << 20,
        chip_selects: 8,
        open_pages: K8_OPEN_PAGES,
        idle_limit: IDLE_LIMIT,
        // 16 bytes twice a clock.
        burst_clocks: 2,
        // 3-3-3-8, the SPD data of Kingston's registered DDR-400 modules KRX3200AK2 as a review of them
        // (thethirdmedia.com, September 2005) gives them.
        cas_latency: 3,
        ras_to_cas: 3,
        precharge: 3,
        // DDR data are written one clock after the command (JESD79).
        write_latency: 1,
        // BKDG 26094, event E3h, the clocks lost: 2, 1, Tcl - 1.
        chip_select_turnaround: 2,
        read_to_write: 1,
        write_to_read: 2,
        ..SDRAM_TURNAROUNDS
    },
};

/// Knights Corner, 1.1 GHz: a ring between cores, directories and eight controllers of GDDR5 memory.
///
/// J. McCalpin, "Memory Bandwidth on Xeon Phi (Knights Corner)", 2013: each controller has two channels of 32
/// bits that have half a line each; 16 banks a chip.
pub static KNC: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 1, bus: 1 },
    line_bytes: 64,
    interconnect: Interconnect::PointToPoint(PointToPoint {
        command: KNC_COMMAND,
        bytes_per_clock: KNC_RING_BYTES,
        memory_command: KNC_MEMORY_COMMAND,
        memory_return: KNC_MEMORY_RETURN,
        probe: KNC_PROBE,
        supplies_clean: true,
        device: KNC_DEVICE,
        port: KNC_PORT,
    }),
    dram: DramGeometry {
        // J. McCalpin, Memory Bandwidth on Xeon Phi (blog, 2013-12-05): 8 controllers, each with two channels
        // in lockstep, each of two chips of 16 banks that act as one.
        controllers: 8,
        interleave_bytes: KNC_INTERLEAVE,
        page_bytes: KNC_PAGE,
        banks: 16,
        chip_select_bytes: 1 << 30,
        chip_selects: 1,
        open_pages: KNC_OPEN_PAGES,
        idle_limit: IDLE_LIMIT,
        burst_clocks: KNC_BURST,
        cas_latency: KNC_DRAM_LATENCY,
        write_latency: KNC_DRAM_LATENCY,
        ras_to_cas: KNC_DRAM_LATENCY,
        precharge: KNC_DRAM_LATENCY,
        ..SDRAM_TURNAROUNDS
    },
};

/// What the buses of the P6 family have in common.
const P6_BUS: PipelinedBus = PipelinedBus {
    request_interval: P6_REQUEST_INTERVAL,
    snoop: P6_SNOOP,
    // T. Shanley, The Unabridged Pentium 4, chapter 50: a snoop stall extends the phase by two clocks.
    snoop_stall: 2,
    dirty_snoop_stalls: P6_DIRTY_SNOOP_STALLS,
    response: P6_RESPONSE,
    implicit_write_back: P6_IMPLICIT_WRITE_BACK,
    memory_command: 0,
    memory_return: 0,
    device: 0,
    port: 0,
    // Pentium Pro data sheet (Intel 242769), appendix A, D[63:0]#: a line takes four data clocks, a
    // partial transfer one.
    bytes_per_clock: 8,
    // The same, DBSY#: the data bus is released one clock after it is deasserted.
    data_turnaround: 1,
    in_order_queue: P6_IN_ORDER_QUEUE,
};

/// Modules of SDRAM as an 82443BX takes them (Intel 290633, section 4.3.2: 4 KB pages with 9 column
/// lines; features: x-1-1-1, up to eight rows of memory).
const SDRAM: DramGeometry = DramGeometry {
    page_bytes: 4 << 10,
    banks: SDRAM_BANKS,
    chip_select_bytes: 128 << 20,
    chip_selects: 8,
    open_pages: BX_OPEN_PAGES,
    idle_limit: IDLE_LIMIT,
    burst_clocks: 4,
    write_latency: SDRAM_WRITE_LATENCY,
    ..SDRAM_TURNAROUNDS
};

/// What direction and chip select cost on SDRAM's data lines, and one controller, which has no turns; the
/// other fields are not meant.
const SDRAM_TURNAROUNDS: DramGeometry = DramGeometry {
    controllers: 1,
    interleave_bytes: 1,
    page_bytes: 1,
    banks: 1,
    chip_select_bytes: 1,
    chip_selects: 1,
    open_pages: 1,
    idle_limit: 0,
    burst_clocks: 1,
    cas_latency: 0,
    write_latency: 0,
    ras_to_cas: 0,
    precharge: 0,
    chip_select_turnaround: SDRAM_TURNAROUND,
    read_to_write: SDRAM_TURNAROUND,
    write_to_read: SDRAM_TURNAROUND,
};

/// One channel of DDR SDRAM at 100 MHz.
const DDR_200: DramGeometry = DramGeometry {
    // A row of 1 KiB in each of eight chips.
    page_bytes: 8 << 10,
    banks: SDRAM_BANKS,
    chip_select_bytes: 256 << 20,
    chip_selects: 8,
    open_pages: DDR_OPEN_PAGES,
    idle_limit: IDLE_LIMIT,
    // Eight bytes twice a clock.
    burst_clocks: 4,
    // AMD 24081D (AMD-761 BIOS design guide), tables 25 and 26: at 100 MHz, CL 2, tRCD 2, tRP 2.
    cas_latency: 2,
    ras_to_cas: 2,
    precharge: 2,
    // DDR data are written one clock after the command (JESD79).
    write_latency: 1,
    chip_select_turnaround: SDRAM_TURNAROUND,
    read_to_write: SDRAM_TURNAROUND,
    // AMD 24081D, "Write to Read": two clocks.
    write_to_read: 2,
    ..SDRAM_TURNAROUNDS
};

/// From a request to the next on the bus of the P6 family. Not sourced.
const P6_REQUEST_INTERVAL: u64 = 3;
/// From a request to the result of its snoop. Not sourced.
const P6_SNOOP: u64 = 4;
/// Stalls of a snoop that hits a modified line. Not sourced.
const P6_DIRTY_SNOOP_STALLS: u64 = 1;
/// From the snoop to the response. Not sourced.
const P6_RESPONSE: u64 = 1;
/// From the response to the data of an implicit write-back. Not sourced.
const P6_IMPLICIT_WRITE_BACK: u64 = 3;
/// Depth of the in-order queue. Not sourced.
const P6_IN_ORDER_QUEUE: usize = 8;
/// The address lines of the Pentium M work twice a clock. Not sourced that a request takes two clocks.
const PM_REQUEST_INTERVAL: u64 = 2;

/// A register of a device on PCI, 300 ns, in clocks of a 66 MHz bus. Not sourced.
const DEVICE_66: u64 = 20;
/// The same of a 100 MHz bus. Not sourced.
const DEVICE_100: u64 = 30;
/// The same of a 133 MHz bus. Not sourced.
const DEVICE_133: u64 = 40;
/// The same in clocks of the K8. Not sourced.
const K8_DEVICE: u64 = 600;

/// A port of the ISA bus or what stands for it, 1 microsecond, in clocks of a 66 MHz bus. Not sourced; A.
/// Fog, "How to optimize for the Pentium family", chapter 29, has more than 300 clocks of the processor for
/// IN and OUT.
const PORT_66: u64 = 67;
/// The same of a 100 MHz bus. Not sourced.
const PORT_100: u64 = 100;
/// The same of a 133 MHz bus. Not sourced.
const PORT_133: u64 = 133;
/// The same in clocks of the K8. Not sourced.
const K8_PORT: u64 = 2000;

/// Address strobe, decoding, data through the controller: 6-1-1-1 for an open page. Not sourced.
const P55C_MEMORY: u64 = 4;
/// A line from the cache on the board, pipelined bursts: 3-1-1-1. Not sourced.
const P55C_BOARD: u64 = 3;
/// A write that the controller takes over: 3-1-1-1. Not sourced.
const P55C_WRITE: u64 = 3;
/// From the request through the Pentium Pro's memory controller. Not sourced.
const PPRO_MEMORY_COMMAND: u64 = 4;
/// And back. Not sourced.
const PPRO_MEMORY_RETURN: u64 = 2;
/// The same of the Pentium II: 100 ns to the first data of an open page. Not sourced.
const PII_MEMORY_COMMAND: u64 = 4;
/// And back. Not sourced.
const PII_MEMORY_RETURN: u64 = 3;
/// The same of the Pentium III: 90 ns. Not sourced.
const P6_MEMORY_COMMAND: u64 = 5;
/// And back. Not sourced.
const P6_MEMORY_RETURN: u64 = 4;
/// The same of the Pentium M: 90 ns. Not sourced.
const PM_MEMORY_COMMAND: u64 = 4;
/// And back. Not sourced.
const PM_MEMORY_RETURN: u64 = 3;
/// The same of the Athlon, behind the command: 90 ns. Not sourced.
const K7_MEMORY_COMMAND: u64 = 4;
/// And back. Not sourced.
const K7_MEMORY_RETURN: u64 = 3;
/// A command on the Athlon's links. Not sourced.
const K7_COMMAND: u64 = 2;
/// A line out of another Athlon's cache. Not sourced.
const K7_PROBE: u64 = 16;

/// Through the K8's northbridge, in clocks of the processor, each way. An access to an open page takes 60
/// ns from load to use on one socket (J. McCalpin, "AMD Opteron Local Memory Latency Chart", 2010), 120
/// clocks. DRAM takes 40 of them and the caches 12; that the rest is so divided is not sourced.
const K8_PATH: u64 = 32;
/// The answer of the other processors' caches, in clocks of the processor. Not sourced.
const K8_PROBE: u64 = 90;

/// Banks of an SDRAM chip of 64 Mbit and more. Not sourced.
const SDRAM_BANKS: u64 = 4;
/// SDRAM takes data with the command. Not sourced.
const SDRAM_WRITE_LATENCY: u64 = 0;
/// CAS latency, tRCD, tRP at 66 MHz. Not sourced.
const SDRAM_66_LATENCY: u64 = 2;
/// CAS latency of PC100. Not sourced.
const PC100_CAS: u64 = 3;
/// tRCD and tRP of PC100. Not sourced.
const PC100_ROW: u64 = 2;
/// CAS latency, tRCD, tRP of PC133. Not sourced.
const PC133_LATENCY: u64 = 3;
/// Clocks lost on the data lines of SDRAM. Not sourced.
const SDRAM_TURNAROUND: u64 = 1;
/// Precharge of EDO DRAM of 60 ns, about 40 ns, in clocks of 15 ns. Not sourced.
const EDO_PRECHARGE: u64 = 3;
/// Pages that the P55C's memory controller keeps open. Not sourced.
const P55C_OPEN_PAGES: usize = 4;
/// The same of the Pentium Pro's. Not sourced.
const EDO_OPEN_PAGES: usize = 1;
/// The same of an 82443BX. Not sourced.
const BX_OPEN_PAGES: usize = 32;
/// The same of the controllers of DDR SDRAM. Not sourced.
const DDR_OPEN_PAGES: usize = 16;
/// The same of the K8. Not sourced.
const K8_OPEN_PAGES: usize = 16;
/// Clocks after which a page that is not accessed is closed. Not sourced.
const IDLE_LIMIT: u64 = 64;

/// A command on Knights Corner's ring. Not sourced.
const KNC_COMMAND: u64 = 1;
/// Bytes of data that the ring takes from a core, or gives it, in a clock. Not sourced.
const KNC_RING_BYTES: u64 = 64;
/// From a command to the memory of Knights Corner: some 300 cycles in all, as 250 to 300 ns and more were
/// measured. Not sourced at first hand.
const KNC_MEMORY_COMMAND: u64 = 140;
/// And back. Not sourced.
const KNC_MEMORY_RETURN: u64 = 100;
/// A line out of another core's L2: 250 cycles in all. Not sourced.
const KNC_PROBE: u64 = 225;
/// A register of a device, 300 ns. Not sourced.
const KNC_DEVICE: u64 = 330;
/// A port, which the part does not have, 1 microsecond. Not sourced.
const KNC_PORT: u64 = 1100;
/// Bytes that are of one memory controller of Knights Corner before the next has its turn: a line. That
/// addresses are "evenly distributed" over them is (Intel Xeon Phi Coprocessor - the Architecture, 2012); how
/// is not sourced.
const KNC_INTERLEAVE: u64 = 64;
/// Bytes of a page of its memory: 2 KiB of a chip, of the two of a channel and the two channels of a
/// controller (J. McCalpin, ibidem).
const KNC_PAGE: u64 = 8 << 10;
/// Pages that a controller keeps open: each bank. Not sourced.
const KNC_OPEN_PAGES: usize = 16;
/// A line over the 64 bits of a controller at 5.5 GT/s, 1.6 clocks. Not sourced at first hand.
const KNC_BURST: u64 = 2;
/// CAS latency, tRCD and tRP of GDDR5 memory, 15 ns. Not sourced.
const KNC_DRAM_LATENCY: u64 = 16;
