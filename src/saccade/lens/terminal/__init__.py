"""Views, heat maps, images and walkthroughs for the terminal, printed by rich."""
