//! How much memory the process holds, and held at most.

/// The most memory this process ever held at once, in bytes (`VmHWM`); `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    status("VmHWM:")
}

/// The memory this process holds now, in bytes (`VmRSS`); `None` where the system does not say.
pub fn current_memory() -> Option<u64> {
    status("VmRSS:")
}

/// A field of `/proc/self/status`, which exists on Linux only.
fn status(field: &str) -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?, field)
}

/// The value of `field` in lines like `VmHWM:     1234 kB`, in bytes.
fn parse(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_field_is_read_in_bytes() {
        let status = "Name:\tcovmatch\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(status, "VmHWM:"), Some(2 * 1024 * 1024));
        assert_eq!(parse(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(parse(status, "VmSwap:"), None);
        assert_eq!(parse("VmHWM: many kB", "VmHWM:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_stays_after_the_memory_is_gone() {
        let size = 64 << 20;
        let block = vec![1u8; size];
        let peak = peak_memory().unwrap();
        assert!(peak >= block.iter().map(|&b| u64::from(b)).sum::<u64>(), "{peak}");
        drop(block);
        // The kernel's counters lag by some pages a thread; the block is far more than that.
        assert!(peak_memory().unwrap() >= peak - size as u64 / 2);
        assert!(current_memory().unwrap() > 0);
    }
}
