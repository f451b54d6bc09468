//! The name that was probably meant.

/// The candidate that is nearest to `written`, if it is near enough for a typo: a third of its
/// length away, in insertions, deletions, substitutions and exchanges of neighbours.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = plain(written);
    candidates
        .map(|candidate| (distance(&written, &plain(candidate)), candidate))
        .filter(|&(distance, candidate)| distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice between `-` and `_` are no difference.
fn plain(name: &str) -> Vec<char> {
    name.to_lowercase().replace('-', "_").chars().collect()
}

/// The optimal string alignment distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if exchanged {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_nonsense_finds_none() {
        let names = ["hosts", "link", "crossbar", "round_robin"];
        let near = |written| nearest(written, names.into_iter());
        assert_eq!(near("hots"), Some("hosts"));
        assert_eq!(near("corssbar"), Some("crossbar"));
        assert_eq!(near("Round-Robin"), Some("round_robin"));
        assert_eq!(near("temperature"), None);
        assert_eq!(near(""), None);
    }

    #[test]
    fn an_exchange_of_neighbours_is_one_step() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("ab"), &chars("ba")), 1);
        assert_eq!(distance(&chars("kitten"), &chars("sitting")), 3);
        assert_eq!(distance(&chars(""), &chars("abc")), 3);
    }
}
