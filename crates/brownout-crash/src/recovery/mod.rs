//! Runs the user's recovery on crash images.
