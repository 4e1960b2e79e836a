//! The positions of the boxes and the edges of a drawn workflow. The boxes of a layer form a column. An edge leads
//! from the right side of a box to the left side of a box of a later column, and crosses the columns between them in
//! the gaps between their rows, so that it runs through no box. Pure: it uses positions only, and is independent of
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

pub(super) const WIDTH: usize = 176;
pub(super) const HEIGHT: usize = 46;
const GAP_X: usize = 54;
const GAP_Y: usize = 16;
const PITCH_X: usize = WIDTH + GAP_X;
const PITCH_Y: usize = HEIGHT + GAP_Y;
/// The margin, as high as a gap: edges pass above the first row, too, and below the last.
const MARGIN: usize = GAP_Y;
/// The distance between a box and the nearest edge that passes it.
const CLEARANCE: usize = 3;

/// Right and down from the upper left corner of the drawing.
pub(super) type Point = (usize, usize);

/// Each route has an even number of points: a curve leads from the first of a pair to the second, a straight line from pair to pair.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Upper left corners, in the order of the boxes.
    pub(super) corners: Vec<Point>,
    pub(super) routes: Vec<Vec<Point>>,
}

/// The geometry of boxes in these columns, from top to bottom, and of edges between them, which lead to later
/// columns.
pub(super) fn geometry(columns: &[usize], edges: &BTreeSet<(usize, usize)>) -> Geometry {
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    for column in columns {
        *rows.entry(*column).or_default() += 1;
    }
    let tallest = rows.values().max().copied().unwrap_or(1);
    let places = Places { tallest, rows };
    let mut next: BTreeMap<usize, usize> = BTreeMap::new();
    let corners: Vec<Point> = columns
        .iter()
        .map(|column| {
            let row = next.entry(*column).or_default();
            *row += 1;
            (left(*column), places.top(*column) + (*row - 1) * PITCH_Y)
        })
        .collect();
    let count = columns.iter().max().map_or(1, |last| last + 1);
    Geometry {
        width: 2 * MARGIN + count * PITCH_X - GAP_X,
        height: 2 * MARGIN + tallest * PITCH_Y - GAP_Y,
        routes: routes(&places, columns, &corners, edges),
        corners,
    }
}

const fn left(column: usize) -> usize {
    MARGIN + column * PITCH_X
}

/// The number of rows of each column.
struct Places {
    tallest: usize,
    rows: BTreeMap<usize, usize>,
}

impl Places {
    fn rows(&self, column: usize) -> usize {
        self.rows.get(&column).copied().unwrap_or(0)
    }

    /// The top of a column's first row. Columns are centred.
    fn top(&self, column: usize) -> usize {
        MARGIN + (self.tallest - self.rows(column)) * PITCH_Y / 2
    }

    /// The gap nearest to this height: 0 is above the first row.
    fn gap(&self, column: usize, y: usize) -> usize {
        let below_first = (y + GAP_Y / 2 + PITCH_Y / 2).saturating_sub(self.top(column));
        (below_first / PITCH_Y).min(self.rows(column))
    }

    /// The height of one of so many lanes of a gap.
    fn lane(&self, column: usize, gap: usize, nth: usize, count: usize) -> usize {
        let above = self.top(column) + gap * PITCH_Y - GAP_Y;
        above + CLEARANCE + (GAP_Y - 2 * CLEARANCE) * (nth + 1) / (count + 1)
    }
}

/// Edges of one box share a lane of a gap.
fn routes(
    places: &Places,
    columns: &[usize],
    corners: &[Point],
    edges: &BTreeSet<(usize, usize)>,
) -> Vec<Vec<Point>> {
    let ends = |(from, to): (usize, usize)| {
        let (start, end) = (corners.get(from)?, corners.get(to)?);
        let between = columns.get(from)? + 1..*columns.get(to)?;
        Some((from, (start.0 + WIDTH, start.1 + HEIGHT / 2), (end.0, end.1 + HEIGHT / 2), between))
    };
    let mut lanes: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    let mut crossings = Vec::new();
    for (from, start, end, between) in edges.iter().filter_map(|edge| ends(*edge)) {
        let mut y = start.1;
        let mut gaps = Vec::new();
        for column in between.clone() {
            // On the straight way to the end.
            let left_over = between.end - column + 1;
            y = (y * (left_over - 1) + end.1) / left_over;
            let gap = places.gap(column, y);
            lanes.entry((column, gap)).or_default().insert(from);
            y = places.lane(column, gap, 0, 1);
            gaps.push((column, gap));
        }
        crossings.push((from, start, end, gaps));
    }
    let crossed = |from: usize, (column, gap): (usize, usize)| {
        let sharing = lanes.get(&(column, gap)).map_or(1, BTreeSet::len);
        let nth = lanes.get(&(column, gap)).map_or(0, |all| all.range(..from).count());
        let y = places.lane(column, gap, nth, sharing);
        [(left(column), y), (left(column) + WIDTH, y)]
    };
    crossings
        .into_iter()
        .map(|(from, start, end, gaps)| {
            let passed = gaps.into_iter().flat_map(|gap| crossed(from, gap));
            std::iter::once(start).chain(passed).chain([end]).collect()
        })
        .collect()
}

/// The route as the path of an SVG. A curve stays between two columns: it leaves and arrives level.
pub(super) fn path(route: &[Point]) -> String {
    let mut path = String::new();
    for pair in route.chunks_exact(2) {
        if let [(x, y), (to_x, to_y)] = pair {
            let bend = usize::midpoint(*x, *to_x);
            let begin = if path.is_empty() { 'M' } else { 'L' };
            path.push_str(&format!("{begin}{x} {y}C{bend} {y} {bend} {to_y} {to_x} {to_y}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of straight pieces by which a curve is checked.
    const PIECES: u32 = 32;

    fn point((x, y): Point) -> (f64, f64) {
        (f64::from(u32::try_from(x).unwrap()), f64::from(u32::try_from(y).unwrap()))
    }

    /// The route as it is drawn, in short straight segments.
    fn drawn(route: &[Point]) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for pair in route.chunks_exact(2) {
            let ((x, y), (to_x, to_y)) = (point(pair[0]), point(pair[1]));
            let bend = f64::midpoint(x, to_x);
            for nth in 0..=PIECES {
                let t = f64::from(nth) / f64::from(PIECES);
                let [a, b, c, d] =
                    [(1.0 - t).powi(3), 3.0 * t * (1.0 - t).powi(2), 3.0 * t * t * (1.0 - t), t.powi(3)];
                points.push((a * x + (b + c) * bend + d * to_x, (a + b) * y + (c + d) * to_y));
            }
        }
        points
    }

    /// True if a part of a segment is within the box: the segment is cut at the sides of the box, one after the
    /// other.
    fn crosses(from: (f64, f64), to: (f64, f64), corner: Point) -> bool {
        let (left, top) = point(corner);
        let (right, bottom) = point((corner.0 + WIDTH, corner.1 + HEIGHT));
        let (along_x, along_y) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (along, room) in [
            (-along_x, from.0 - left),
            (along_x, right - from.0),
            (-along_y, from.1 - top),
            (along_y, bottom - from.1),
        ] {
            if along == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if along < 0.0 {
                enters = enters.max(room / along);
            } else {
                leaves = leaves.min(room / along);
            }
        }
        enters <= leaves
    }

    #[track_caller]
    fn no_edge_crosses_a_box(columns: &[usize], edges: &[(usize, usize)]) -> Geometry {
        let edges = BTreeSet::from_iter(edges.iter().copied());
        let geometry = geometry(columns, &edges);
        assert_eq!(geometry.routes.len(), edges.len());
        let (width, height) = point((geometry.width, geometry.height));
        for (x, y) in &geometry.corners {
            assert!(x + WIDTH < geometry.width && y + HEIGHT < geometry.height, "a box is cut off");
        }
        for (edge, route) in edges.iter().zip(&geometry.routes) {
            let points = drawn(route);
            for pair in points.windows(2) {
                assert!((0.0..width).contains(&pair[1].0) && (0.0..height).contains(&pair[1].1));
                for (nth, corner) in geometry.corners.iter().enumerate() {
                    let is_end = nth == edge.0 || nth == edge.1;
                    assert!(
                        is_end || !crosses(pair[0], pair[1], *corner),
                        "{edge:?} crosses {nth} at {pair:?}"
                    );
                }
            }
            let (from, to) = (geometry.corners[edge.0], geometry.corners[edge.1]);
            assert_eq!(route.first(), Some(&(from.0 + WIDTH, from.1 + HEIGHT / 2)), "its right side");
            assert_eq!(route.last(), Some(&(to.0, to.1 + HEIGHT / 2)), "its left side");
        }
        geometry
    }

    #[test]
    fn a_segment_that_touches_a_box_crosses_it() {
        let corner = (100, 100);
        assert!(crosses((0.0, 120.0), (400.0, 120.0), corner));
        assert!(crosses((150.0, 110.0), (160.0, 120.0), corner), "it lies inside");
        assert!(crosses((90.0, 90.0), (110.0, 110.0), corner), "it cuts the corner");
        assert!(!crosses((0.0, 99.0), (400.0, 99.0), corner));
        assert!(!crosses((0.0, 120.0), (99.0, 120.0), corner));
    }

    #[test]
    fn the_edges_of_a_diamond_cross_no_box() {
        no_edge_crosses_a_box(&[0, 1, 1, 2], &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]);
    }

    #[test]
    fn the_edges_of_a_fan_out_of_twelve_cross_no_box() {
        let columns: Vec<usize> = std::iter::once(0).chain([1; 12]).chain([2]).collect();
        let out = (1..=12).map(|nth| (0, nth));
        let edges: Vec<(usize, usize)> = out.chain((1..=12).map(|nth| (nth, 13))).chain([(0, 13)]).collect();
        no_edge_crosses_a_box(&columns, &edges);
    }

    #[test]
    fn an_edge_over_three_ranks_of_a_chain_passes_between_the_rows() {
        let chain = [(0, 1), (1, 2), (2, 3), (3, 4)];
        let over_three: Vec<(usize, usize)> = chain.into_iter().chain([(0, 4)]).collect();
        let geometry = no_edge_crosses_a_box(&[0, 1, 2, 3, 4], &over_three);
        let long = geometry.routes.iter().max_by_key(|route| route.len()).unwrap();
        assert_eq!(long.len(), 8, "two ends, and two points in each of the three columns between");
        let [_, first, .., last, _] = long.as_slice() else { panic!("{long:?}") };
        assert_eq!(first.1, last.1, "it stays in its lane");
    }

    #[test]
    fn edges_of_several_boxes_through_one_gap_have_a_lane_each() {
        // All of the first column lead past the second, which has one box, to the third.
        let edges: Vec<(usize, usize)> = (0..6).flat_map(|from| [(from, 6), (from, 7)]).collect();
        let geometry = no_edge_crosses_a_box(&[0, 0, 0, 0, 0, 0, 1, 2], &edges);
        let lanes: BTreeSet<usize> =
            geometry.routes.iter().filter(|route| route.len() == 4).map(|route| route[1].1).collect();
        assert_eq!(lanes.len(), 6);
    }

    #[test]
    fn many_columns_of_many_rows_have_no_edge_through_a_box() {
        let columns: Vec<usize> = (0..60).map(|nth| nth % 9).collect();
        let all = (0..60).flat_map(|from| (0..60).map(move |to| (from, to)));
        let edges: Vec<(usize, usize)> =
            all.filter(|(from, to)| columns[*from] < columns[*to] && (from * 7 + to) % 5 == 0).collect();
        no_edge_crosses_a_box(&columns, &edges);
    }

    #[test]
    fn a_path_is_level_where_it_passes_a_column() {
        assert_eq!(path(&[(10, 5), (30, 9), (50, 9), (70, 5)]), "M10 5C20 5 20 9 30 9L50 9C60 9 60 5 70 5");
    }
}
