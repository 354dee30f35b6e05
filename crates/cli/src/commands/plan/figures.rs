//! The figures of `thalweg plan --figure`.

mod cost;
pub mod data;
mod ddiha;
mod network;
mod panel;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Figure {
    #[value(name = "ddiha-8")]
    Ddiha8,
    #[value(name = "ddiha-9")]
    Ddiha9,
    Network,
    Cost,
}

impl Figure {
    pub fn page(self) -> plot::Page {
        match self {
            Figure::Ddiha8 => ddiha::figure_8(),
            Figure::Ddiha9 => ddiha::figure_9(),
            Figure::Network => network::figure(),
            Figure::Cost => cost::figure(),
        }
    }
}
