"""What the speed gate times, one file each: `make()` prepares and gives a function whose one call is the work. The
file's name is the part's name. A part stands for something that every run does all the time."""
