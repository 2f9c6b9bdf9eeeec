//! The `vpmu` command.

fn main() -> std::process::ExitCode {
    vpmu::cli::main()
}
