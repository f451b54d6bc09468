//! How large flows are: one size, or a distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{Bytes, Fraction};

use super::super::WorkloadError;

/// The sizes of flows: what programs submit, without headers.
///
/// The four that have names are cumulative distributions as HPCC's simulator ships them (Li et al.,
/// "HPCC: High Precision Congestion Control", SIGCOMM 2019; `traffic_gen` of
/// github.com/alibaba-edu/High-Precision-Congestion-Control). Between two points each size is equally
/// likely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowSizes {
    /// All flows have this size.
    Constant(Bytes),
    /// A web search cluster (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010): 1.7 MB in the
    /// mean, half of them below 73 kB.
    WebSearch,
    /// A Hadoop cluster of Facebook (Roy et al., "Inside the Social Network's (Datacenter) Network",
    /// SIGCOMM 2015): 120 kB in the mean, half of them up to 700 bytes.
    FbHdp,
    /// Storage of Alibaba: 41 kB in the mean, half of them below 6.4 kB.
    #[serde(rename = "ali_storage_2019")]
    AliStorage2019,
    /// Remote procedure calls of Google: 2.9 kB in the mean, half of them up to 257 bytes.
    #[serde(rename = "google_rpc_2008")]
    GoogleRpc2008,
    /// A table: sizes, and the share of flows up to each of them, from 0 to 1.
    Table(Vec<(Bytes, Fraction)>),
}

/// A distribution of sizes, ready to draw from. Points are a size and the share of flows up to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizeLaw {
    points: Vec<(f64, f64)>,
}

/// Cumulative: bytes, and per cent of flows.
const WEB_SEARCH: [(u32, f64); 12] = [
    (0, 0.0),
    (10_000, 15.0),
    (20_000, 20.0),
    (30_000, 30.0),
    (50_000, 40.0),
    (80_000, 53.0),
    (200_000, 60.0),
    (1_000_000, 70.0),
    (2_000_000, 80.0),
    (5_000_000, 90.0),
    (10_000_000, 97.0),
    (30_000_000, 100.0),
];

const FB_HDP: [(u32, f64); 20] = [
    (0, 0.0),
    (100, 1.0),
    (200, 2.0),
    (300, 5.0),
    (350, 15.0),
    (400, 20.0),
    (500, 30.0),
    (600, 40.0),
    (700, 50.0),
    (1_000, 60.0),
    (2_000, 67.0),
    (7_000, 70.0),
    (30_000, 72.0),
    (50_000, 82.0),
    (80_000, 87.0),
    (120_000, 90.0),
    (300_000, 95.0),
    (1_000_000, 97.5),
    (2_000_000, 99.0),
    (10_000_000, 100.0),
];

const ALI_STORAGE_2019: [(u32, f64); 9] = [
    (0, 0.0),
    (4_000, 22.93),
    (8_000, 69.21),
    (16_000, 80.61),
    (32_000, 90.47),
    (64_000, 93.53),
    (128_000, 96.77),
    (256_000, 97.53),
    (2_000_000, 100.0),
];

/// The sizes at which the steps change in the published table, with the number of steps up to there.
/// Within a run of steps the share grows by equal parts and the reciprocal of the size falls by equal
/// parts, to the nearest byte.
const GOOGLE_RPC_2008: [(u32, f64, u32); 18] = [
    (0, 0.0, 0),
    (3, 6.48826, 1),
    (32, 9.73239, 1),
    (64, 15.5271, 5),
    (128, 35.1573, 6),
    (256, 49.7901, 8),
    (512, 78.4921, 11),
    (1_024, 86.32, 14),
    (2_048, 90.8862, 18),
    (4_096, 93.4955, 24),
    (8_192, 96.4309, 31),
    (16_384, 98.4694, 41),
    (32_768, 99.0402, 53),
    (65_536, 99.3256, 69),
    (131_072, 99.7129, 90),
    (262_144, 99.8453, 118),
    (524_288, 99.9498, 153),
    (15_158_197, 100.0, 199),
];

impl FlowSizes {
    /// Every distribution that has a name.
    pub const NAMED: [FlowSizes; 4] = [
        FlowSizes::WebSearch,
        FlowSizes::FbHdp,
        FlowSizes::AliStorage2019,
        FlowSizes::GoogleRpc2008,
    ];

    pub(super) fn build(&self, key: &str) -> Result<SizeLaw, WorkloadError> {
        let of = |table: &[(u32, f64)]| {
            let points = table.iter().map(|(size, share)| (f64::from(*size), share / 100.0));
            Ok(SizeLaw { points: points.collect() })
        };
        match self {
            FlowSizes::Constant(size) if size.0 == 0 => {
                Err(WorkloadError::new(&format!("{key}.constant"), size, "a size above 0"))
            }
            FlowSizes::Constant(size) => Ok(SizeLaw { points: vec![(size.0 as f64, 1.0)] }),
            FlowSizes::WebSearch => of(&WEB_SEARCH),
            FlowSizes::FbHdp => of(&FB_HDP),
            FlowSizes::AliStorage2019 => of(&ALI_STORAGE_2019),
            FlowSizes::GoogleRpc2008 => of(&google_rpc_2008()),
            FlowSizes::Table(points) => {
                let is_rising =
                    points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
                let is_whole = points.last().is_some_and(|last| last.1 == Fraction::MAX);
                if !is_rising || !is_whole || points.last().is_some_and(|last| last.0.0 == 0) {
                    let accepted = "pairs of a size and the share of flows up to it, both rising, \
                                    and the last share 1";
                    let value = format!("{} points", points.len());
                    return Err(WorkloadError::new(&format!("{key}.table"), value, accepted));
                }
                let points = points.iter().map(|(size, share)| (size.0 as f64, share.get()));
                Ok(SizeLaw { points: points.collect() })
            }
        }
    }
}

/// All points of the table.
fn google_rpc_2008() -> Vec<(u32, f64)> {
    let mut points = vec![(0, 0.0)];
    for pair in GOOGLE_RPC_2008.windows(2) {
        let ((size, share, _), (next_size, next_share, steps)) = (pair[0], pair[1]);
        for step in 1..steps {
            let part = f64::from(step) / f64::from(steps);
            let (from, to) = (1.0 / f64::from(size), 1.0 / f64::from(next_size));
            let own = libm::round(1.0 / (from + (to - from) * part)) as u32;
            points.push((own, share + (next_share - share) * part));
        }
        points.push((next_size, next_share));
    }
    points
}

impl SizeLaw {
    /// The size below which a share of flows is; at least a byte.
    fn at(&self, share: f64) -> Bytes {
        let next = self.points.partition_point(|point| point.1 < share);
        let size = match (next.checked_sub(1).map(|before| self.points[before]), next) {
            (Some((size, below)), next) if next < self.points.len() => {
                let (next_size, up_to) = self.points[next];
                size + (next_size - size) * (share - below) / (up_to - below)
            }
            (Some((size, _)), _) => size,
            (None, _) => self.points[0].0,
        };
        Bytes((libm::round(size) as u64).max(1))
    }

    pub fn draw(&self, random: &mut Stream) -> Bytes {
        match self.points[..] {
            [(size, _)] => Bytes(size as u64),
            _ => self.at(random.unit()),
        }
    }

    /// The mean size in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points[0];
        let between = self.points.windows(2).map(|pair| {
            let ((size, below), (next_size, up_to)) = (pair[0], pair[1]);
            (up_to - below) * f64::midpoint(size, next_size)
        });
        first.0 * first.1 + between.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    #[test]
    fn distributions_have_the_means_and_medians_that_they_are_said_to_have() {
        // Mean in bytes, and the median, by hand from the tables.
        let expected =
            [(1_711_250.0, 73_077), (120_420.75, 700), (40_869.8, 6_340), (2_890.5, 257)];
        for (sizes, (mean, median)) in FlowSizes::NAMED.iter().zip(expected) {
            let law = sizes.build("sizes").expect("shipped");
            assert!((law.mean() / mean - 1.0).abs() < 1e-5, "{sizes:?}: {}", law.mean());
            assert_eq!(law.at(0.5), Bytes(median), "{sizes:?}");
        }
    }

    /// Rows of the published table of Google's remote procedure calls.
    #[test]
    fn the_steps_of_a_table_lead_through_its_rows() {
        let points = google_rpc_2008();
        let published = [
            (36, 10.8913),
            (70, 18.7988),
            (228, 47.961),
            (956, 85.7608),
            (3_932, 93.3867),
            (15_994, 98.4197),
            (129_632, 99.7086),
            (263_003, 99.846),
            (520_884, 99.9491),
            (760_371, 99.966),
            (4_300_563, 99.9955),
            (13_293_619, 99.9997),
        ];
        for (size, share) in published {
            let own = points.iter().find(|point| point.0 == size);
            assert!(own.is_some_and(|own| (own.1 - share).abs() < 1e-4), "{size}: {own:?}");
        }
    }

    #[test]
    fn what_is_drawn_follows_the_table() {
        let mut random = Streams::new(1).stream("sizes", 0);
        for sizes in FlowSizes::NAMED {
            let law = sizes.build("sizes").expect("shipped");
            let mut drawn: Vec<u64> = (0..20_000).map(|_| law.draw(&mut random).0).collect();
            drawn.sort_unstable();
            // Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand tables.
            for (size, share) in &law.points {
                let below = drawn.partition_point(|own| *own as f64 <= *size + 0.5);
                let gap = (below as f64 / drawn.len() as f64 - share).abs();
                assert!(gap < 1.95 / 20_000_f64.sqrt() + 0.002, "{sizes:?} at {size}: {gap}");
            }
        }
    }

    #[test]
    fn a_table_that_does_not_rise_is_refused() {
        let share = |share| Fraction::new(share).expect("a fraction");
        let bad = [
            vec![],
            vec![(Bytes(1), share(0.5))],
            vec![(Bytes(2), share(0.5)), (Bytes(1), share(1.0))],
            vec![(Bytes(0), share(1.0))],
        ];
        for points in bad {
            assert!(FlowSizes::Table(points.clone()).build("sizes").is_err(), "{points:?}");
        }
        // A tenth of the flows has 10 bytes.
        let law = FlowSizes::Table(vec![(Bytes(10), share(0.1)), (Bytes(100), share(1.0))]);
        let law = law.build("sizes").expect("rising");
        assert_eq!([law.at(0.05), law.at(0.55)], [Bytes(10), Bytes(55)]);
        assert!((law.mean() - (1.0 + 0.9 * 55.0)).abs() < 1e-9);
    }
}
