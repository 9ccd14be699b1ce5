"""The frame around every screen: top bar, navigation, status bar, palette, banners, operator keys."""
