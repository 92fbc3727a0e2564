"""What rich prints of views, heat maps, images and walkthroughs."""
