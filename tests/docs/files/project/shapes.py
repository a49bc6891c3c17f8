def area(radius):
    return 3.14 * radius**2
