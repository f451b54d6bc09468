//! The tables of the exponential law, computed when the crate is compiled. Constants are evaluated
//! by exact rules, so that the tables are the same whatever machine compiles them.

const LAYERS: usize = 256;

/// Where the tail begins, for 256 layers of equal area (Marsaglia and Tsang 2000, section 3).
const TAIL: f64 = 7.697_117_470_131_05;

/// Right edges of the layers, from the bottom: the first is so wide that its rectangle has the
/// area of a layer and the tail together, the second begins the tail, the last is zero.
pub(crate) static EDGES: [f64; LAYERS + 1] = edges();

/// The density at each edge.
pub(crate) static HEIGHTS: [f64; LAYERS + 1] = heights();

const fn edges() -> [f64; LAYERS + 1] {
    let mut edges = [0.0; LAYERS + 1];
    let area = (TAIL + 1.0) * exp_minus(TAIL);
    edges[0] = area / exp_minus(TAIL);
    edges[1] = TAIL;
    let mut layer = 1;
    while layer < LAYERS - 1 {
        let height = exp_minus(edges[layer]) + area / edges[layer];
        edges[layer + 1] = ln_minus(height, edges[layer]);
        layer += 1;
    }
    edges
}

const fn heights() -> [f64; LAYERS + 1] {
    let edges = edges();
    let mut heights = [1.0; LAYERS + 1];
    let mut layer = 0;
    while layer < LAYERS {
        heights[layer] = exp_minus(edges[layer]);
        layer += 1;
    }
    heights
}

/// exp(-x) for x in `0..16`: the series of a sixteenth of the argument, raised to the sixteenth.
const fn exp_minus(x: f64) -> f64 {
    let x = x / 16.0;
    let (mut sum, mut term, mut n) = (1.0, 1.0, 1.0);
    while n < 20.0 {
        term *= -x / n;
        sum += term;
        n += 1.0;
    }
    let square = sum * sum;
    let fourth = square * square;
    let eighth = fourth * fourth;
    eighth * eighth
}

/// -ln(y) by Newton's method from a value somewhat too large.
const fn ln_minus(y: f64, start: f64) -> f64 {
    let (mut x, mut step) = (start, 0);
    while step < 12 {
        x += 1.0 - y / exp_minus(x);
        step += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_the_same_area() {
        let area = (TAIL + 1.0) * libm::exp(-TAIL);
        for layer in 1..LAYERS {
            let height = HEIGHTS[layer + 1] - HEIGHTS[layer];
            let this = EDGES[layer] * height;
            assert!((this / area - 1.0).abs() < 1e-9, "layer {layer}: {this} is not {area}");
        }
        assert_eq!((EDGES[LAYERS], HEIGHTS[LAYERS]), (0.0, 1.0));
    }

    #[test]
    fn heights_are_those_of_the_density() {
        for (edge, height) in EDGES.iter().zip(&HEIGHTS) {
            assert!((height / libm::exp(-edge) - 1.0).abs() < 1e-13);
        }
    }
}
