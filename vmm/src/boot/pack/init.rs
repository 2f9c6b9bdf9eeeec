//! The guest's first process, a script for busybox.

use super::{BUSYBOX, EXIT_PORT, FILE_RELAY, MARKER, Packing, RELAYS};

/// The FIFOs between the command and the programs that carry its standard streams.
const FIFOS: [&str; 3] = ["/run/vpmu-0", "/run/vpmu-1", "/run/vpmu-2"];
/// The status if the command cannot be run as was asked, as of a run whose input is missing.
const NOT_RUN: u8 = 4;

/// The script. The status goes to the machine's exit port; should that fail, a line on the console says it,
/// and the machine powers off.
///
/// A stream that is piped is a FIFO, whose other end a relay has. What the command has written is out before
/// its status is: the relays of its output end when nobody can write to them any more, as the reader of a
/// pipe does.
pub(super) fn init_script(command: &str, packing: &Packing<'_>) -> String {
    let words = std::iter::once(command).chain(packing.arguments.iter().map(String::as_str));
    let line = words.map(quote).collect::<Vec<_>>().join(" ");
    let variables = packing.environment.iter();
    let variables: String =
        variables.map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
    let folder = quote(packing.folder);
    let Streams { relays, redirections, waits } = Streams::new(packing);
    // cttyhack opens the console as all three streams: what takes its place is opened after that.
    let command = if redirections.is_empty() {
        line
    } else {
        format!("{BUSYBOX} sh -c 'exec \"$0\" \"$@\"{redirections}' {line}")
    };
    format!(
        "#!{BUSYBOX} sh\n\
         export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
         export HOME=/root TERM=vt100\n\
         {BUSYBOX} mount -t devtmpfs dev /dev\n\
         {BUSYBOX} mount -t proc proc /proc\n\
         {BUSYBOX} mount -t sysfs sys /sys\n\
         {BUSYBOX} --install -s /bin\n\
         {drivers}\
         {relays}\
         {variables}\
         cd {folder}\n\
         {marker}\
         {BUSYBOX} setsid {BUSYBOX} cttyhack {command}\n\
         status=$?\n\
         {waits}\
         {files}\
         {EXIT_PORT} $status\n\
         echo \"vpmu: exit status $status\"\n\
         {BUSYBOX} poweroff -f\n",
        drivers = drivers(packing),
        files = files(packing.got),
        marker = if packing.marked { format!("{MARKER}\n") } else { String::new() },
    )
}

/// What loads drivers and lets programs get at registers; the command is not run without what it asks for.
fn drivers(packing: &Packing<'_>) -> String {
    let load = |path: &str, parameters: &str| {
        format!("{BUSYBOX} insmod {} {parameters} || {EXIT_PORT} {NOT_RUN}\n", quote(path))
    };
    let mut lines: String = packing.drivers.iter().map(|d| load(&d.path, &d.parameters)).collect();
    if packing.registers {
        // A kernel without a driver for this PMU does not have the file, and never allows RDPMC.
        lines += &format!(
            "[ -e /dev/cpu/0/msr ] || {{ echo 'vpmu: --msr: this kernel has no driver for MSRs, and no \
             package of it with one is here; see vpmu fetch'; {EXIT_PORT} {NOT_RUN}; }}\n\
             for file in /sys/bus/event_source/devices/cpu*/rdpmc; do\n\
             [ ! -e \"$file\" ] || echo 2 >\"$file\"\n\
             done\n"
        );
    }
    lines
}

/// What gives files to the machine, in order. The program tells the machine of one that it cannot read, as
/// from a closed standard input.
fn files(got: &[String]) -> String {
    let give = |path: &String| {
        let path = quote(path);
        format!("if [ -f {path} ]; then {FILE_RELAY} <{path}; else {FILE_RELAY} <&-; fi\n")
    };
    got.iter().map(give).collect()
}

/// What the script does for the streams that are pipes.
#[derive(Default)]
struct Streams {
    /// Starts the relays.
    relays: String,
    /// Connects the command to them.
    redirections: String,
    /// Waits until those of output have ended.
    waits: String,
}

impl Streams {
    fn new(packing: &Packing<'_>) -> Self {
        let mut streams = Self::default();
        for (number, piped) in packing.piped.by_number().into_iter().enumerate() {
            if !piped {
                continue;
            }
            let (fifo, relay) = (FIFOS[number], RELAYS[number]);
            streams.relays += &format!("{BUSYBOX} mkfifo {fifo}\n");
            if number == 0 {
                streams.relays += &format!("{relay} >{fifo} &\n");
                streams.redirections += &format!(" <{fifo}");
            } else {
                streams.relays += &format!("{relay} <{fifo} &\nrelay{number}=$!\n");
                streams.redirections += &format!(" {number}>{fifo}");
                streams.waits += &format!("wait $relay{number}\n");
            }
        }
        streams
    }
}

/// One word of a shell command.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::packing;
    use super::super::{Driver, Piped};
    use super::*;

    /// Names and values as the host has them, whatever a shell would make of them, and the folder.
    #[test]
    fn environment_and_folder_are_set() {
        let environment = [("A".into(), "it's $x".into()), ("B".into(), String::new())];
        let given = Packing { environment: &environment, folder: "/a b", ..packing("true", &[]) };
        let script = init_script("/bin/true", &given);
        let lines = "\nexport A='it'\\''s $x'\nexport B=''\ncd '/a b'\n";
        assert!(script.contains(lines), "{script}");
    }

    #[test]
    fn arguments_survive_the_shell() {
        let arguments = ["a b".into(), "it's".into(), "$x".into()];
        let script = init_script("/bin/echo", &packing("echo", &arguments));
        assert!(script.contains("cttyhack '/bin/echo' 'a b' 'it'\\''s' '$x'\n"), "{script}");
        assert!(script.starts_with("#!/bin/busybox sh\n"));
    }

    /// Standard input and error through FIFOs, standard output the console's: the redirections are within
    /// what `cttyhack` runs.
    #[test]
    fn piped_streams_are_redirected() {
        let piped = Piped { input: true, output: false, error: true };
        let arguments = ["a".into(), "b c".into()];
        let given = Packing { piped, ..packing("tr", &arguments) };
        let script = init_script("/bin/tr", &given);
        let line = "cttyhack /bin/busybox sh -c 'exec \"$0\" \"$@\" </run/vpmu-0 2>/run/vpmu-2' \
                    '/bin/tr' 'a' 'b c'\nstatus=$?\nwait $relay2\n/sbin/vpmu-exit $status\n";
        assert!(script.contains(line), "{script}");
        assert!(script.contains("\n/sbin/vpmu-stdin >/run/vpmu-0 &\n"), "{script}");
        assert!(!script.contains("vpmu-stdout"), "{script}");
    }

    /// Everything else is done, so that what follows is the command.
    #[test]
    fn the_marker_is_right_before_the_command() {
        let script = init_script("/bin/true", &Packing { marked: true, ..packing("true", &[]) });
        let lines = "\ncd '/root'\n/sbin/vpmu-marker\n/bin/busybox setsid /bin/busybox cttyhack '/bin/true'\n";
        assert!(script.contains(lines), "{script}");
        assert!(!init_script("/bin/true", &packing("true", &[])).contains("marker"));
    }

    /// Drivers come before the command, files behind it and before its status.
    #[test]
    fn drivers_and_files_have_their_places() {
        let driver = Driver {
            path: "/d/msr.ko".into(),
            bytes: vec![],
            parameters: "allow_writes=on".into(),
        };
        let given = Packing { drivers: &[driver], got: &["/it's".into()], ..packing("true", &[]) };
        let script = init_script("/bin/true", &given);
        let load = "\n/bin/busybox insmod '/d/msr.ko' allow_writes=on || /sbin/vpmu-exit 4\n";
        let give = "status=$?\nif [ -f '/it'\\''s' ]; then /sbin/vpmu-file <'/it'\\''s'; \
                    else /sbin/vpmu-file <&-; fi\n/sbin/vpmu-exit $status\n";
        let (load, run) = (script.find(load).unwrap(), script.find("cttyhack").unwrap());
        assert!(load < run && run < script.find(give).unwrap(), "{script}");
        assert!(!script.contains("rdpmc"), "{script}");
        let given = Packing { registers: true, ..given };
        assert!(init_script("/bin/true", &given).contains("/dev/cpu/0/msr"));
    }
}
