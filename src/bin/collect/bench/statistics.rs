//! Percentiles.

/// The value below which `percent` of the sorted values lie: one that occurred (nearest rank). 0 for none.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the length")]
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.saturating_sub(1).min(last)]
}

/// Sorts times.
pub(crate) fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_occurred() {
        let times = sorted(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((percentile(&times, 0.0), percentile(&times, 50.0)), (1.0, 2.0));
        assert_eq!((percentile(&times, 99.0), percentile(&[], 50.0)), (4.0, 0.0));
    }
}
