"""The learned method: proximal quasi-Newton steps on f = h + g + psi; `method` has the loop."""
