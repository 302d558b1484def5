"""PyIceberg's clients of catalogs and of stores of files, bounded in time, in size, and in what a table's owner may choose."""
