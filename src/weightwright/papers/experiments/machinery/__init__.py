"""What every study needs and no study is about: units of work, where their results are kept, who runs them, trends."""
