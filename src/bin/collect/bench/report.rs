//! Lines of results: the columns of nccl-tests, or one JSON object a line.

use serde_json::{Value, json};

/// What one size of a collective gave.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) collective: &'static str,
    pub(crate) ranks: usize,
    pub(crate) algorithm: &'static str,
    pub(crate) bytes: usize,
    pub(crate) count: usize,
    pub(crate) datatype: &'static str,
    pub(crate) op: &'static str,
    pub(crate) iterations: usize,
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) wrong: u64,
}

impl Line {
    /// GB/s of 10^9 bytes: the buffer by the time.
    fn algbw(&self) -> f64 {
        if self.p50_us > 0.0 { self.bytes as f64 / self.p50_us / 1e3 } else { 0.0 }
    }

    /// As nccl-tests defines it: what the busiest link would carry.
    fn busbw(&self) -> f64 {
        let n = self.ranks as f64;
        let factor = match self.collective {
            "allreduce" => 2.0 * (n - 1.0) / n,
            "allgather" | "allgatherv" | "gather" | "gatherv" | "scatter" | "scatterv"
            | "reduce_scatter" | "reduce_scatterv" | "alltoall" | "alltoallv" => (n - 1.0) / n,
            _ => 1.0,
        };
        self.algbw() * factor
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "collective": self.collective, "ranks": self.ranks, "transport": "tcp",
            "algorithm": self.algorithm, "bytes": self.bytes, "count": self.count,
            "type": self.datatype, "op": self.op, "iterations": self.iterations,
            "min_us": self.min_us, "p50_us": self.p50_us, "p99_us": self.p99_us,
            "algbw": self.algbw(), "busbw": self.busbw(), "wrong": self.wrong,
        })
    }

    pub(crate) fn heading() -> String {
        let names = ["bytes", "count", "type", "op", "min us", "p50 us", "p99 us"];
        let rates = ["algbw", "busbw", "wrong"];
        let [a, b, c, d, e, f, g] = names;
        let [h, i, j] = rates;
        format!("#{a:>12} {b:>12} {c:>6} {d:>6} {e:>10} {f:>10} {g:>10} {h:>8} {i:>8} {j:>6}")
    }

    pub(crate) fn columns(&self) -> String {
        format!(
            " {:>12} {:>12} {:>6} {:>6} {:>10.2} {:>10.2} {:>10.2} {:>8.3} {:>8.3} {:>6}",
            self.bytes,
            self.count,
            self.datatype,
            self.op,
            self.min_us,
            self.p50_us,
            self.p99_us,
            self.algbw(),
            self.busbw(),
            self.wrong
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let line = Line {
            collective: "allreduce",
            ranks: 4,
            algorithm: "ring",
            bytes: 4_000_000,
            count: 1_000_000,
            datatype: "f32",
            op: "sum",
            iterations: 1,
            min_us: 1000.0,
            p50_us: 1000.0,
            p99_us: 1000.0,
            wrong: 0,
        };
        assert_eq!((line.algbw(), line.busbw()), (4.0, 6.0));
        assert_eq!(line.json()["busbw"], 6.0);
    }
}
