"""Programs for planning and measuring. Nothing that is deployed needs them."""
