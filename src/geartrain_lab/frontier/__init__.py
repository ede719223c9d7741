"""What each method pays to reach an accuracy, against the ratio of prices."""
