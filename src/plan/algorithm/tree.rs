//! The k-nomial tree, of which the binomial one is the case k = 2.
//!
//! Places count from the root's, 0. With place = a·k^i and a no multiple of k, the parent has the last digit of a set
//! to zero; the subtree covers the places from this one to the next multiple of k^i. So a subtree is a run of places,
//! and the children's are runs in ascending order.

/// One place's neighbours in the tree.
pub(super) struct Tree {
    /// `None` at the root.
    pub(super) parent: Option<u32>,
    /// The first place of each child's subtree, which is the child, and the end of the subtree; nearest first.
    pub(super) children: Vec<(u32, u32)>,
}

impl Tree {
    /// The tree over `size` places as seen from one; the radix is at least 2.
    pub(super) fn new(place: u32, size: u32, radix: u32) -> Self {
        let (mut width, mut children) = (1, Vec::new());
        while width < size {
            let digit = place / width % radix;
            if digit > 0 {
                return Self { parent: Some(place - digit * width), children };
            }
            let firsts = (1..radix).map(|j| place + j * width).take_while(|child| *child < size);
            children.extend(firsts.map(|child| (child, size.min(child + width))));
            width *= radix;
        }
        Self { parent: None, children }
    }
}
